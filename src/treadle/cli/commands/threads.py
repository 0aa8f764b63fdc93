"""`treadle threads`: list threads, or search in them."""

from __future__ import annotations

import click

from ...core.entries import Entry, own_parts
from ...core.errors import StoreCorrupt
from ...core.items import Message, text_of
from ...store.contract import Search, Store, ThreadInfo
from ..cli_home import Home
from ..command_options import as_json, runs
from ..json_views import thread_json
from ..lazy_group import examples
from ..output import Column, iso, say, say_json, table, working

__all__ = ["command"]

_COLUMNS = (
    Column("THREAD"),
    Column("TITLE", gives=True),
    Column("TURNS", right=True),
    Column("ENTRIES", right=True),
    Column("UPDATED"),
    Column("FORKED FROM"),
)
_FOUND = (Column("THREAD"), Column("ENTRY", right=True), Column("TEXT", gives=True))
_TITLE_WIDTH = 50
_OPENING = 32
"""Entries among which a title is looked for."""


@click.command(
    "threads", epilog=examples("treadle threads", 'treadle threads --search "flaky test" --limit 5')
)
@click.option("--search", metavar="WORDS", help="Find entries that contain all of these words.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most this many."
)
@as_json
@runs
async def command(home: Home, search: str | None, limit: int, as_json: bool) -> None:
    """List threads, the most recently written first.

    A thread without a title shows the first words of its first input.
    """
    async with home.store() as store:
        if search is None:
            await _list(store, limit, as_json=as_json)
        else:
            await _search(home, store, search, limit, as_json=as_json)


async def _list(store: Store, limit: int, *, as_json: bool) -> None:
    found = await store.threads(limit=limit + 1)
    listed = [(info, await _name(store, info)) for info in found[:limit]]
    if as_json:
        say_json([{**thread_json(info), "name": name} for info, name in listed])
        return
    if not listed:
        say('no threads yet; make one with `treadle new "your first input"`')
        return
    table(_COLUMNS, [_row(info, name) for info, name in listed])
    if len(found) > limit:
        click.echo(f"more exist; show them with --limit {limit * 5}", err=True)


def _row(info: ThreadInfo, name: str) -> list[str]:
    origin = f"{info.parent} at {info.cut}" if info.parent else ""
    return [info.id, name, str(info.turns), str(info.last), iso(info.updated), origin]


async def _name(store: Store, info: ThreadInfo) -> str:
    """The title, or how the first input that people are shown begins."""
    if info.title or not info.turns:
        return info.title
    entries = await store.read(info.id, 1, limit=_OPENING)
    words = next(filter(None, map(_words, entries)), "")
    return words if len(words) <= _TITLE_WIDTH else words[: _TITLE_WIDTH - 1] + "…"


def _words(entry: Entry) -> str:
    """What an entry's sender says on one line, if it is an input for people to see."""
    if entry.kind != "item" or not entry.turn or entry.flags:
        return ""
    try:
        item = entry.item
    except StoreCorrupt:
        return ""
    if not isinstance(item, Message) or item.role != "user":
        return ""
    return " ".join(text_of(own_parts(item.content, entry.fragments)).split())


async def _search(home: Home, store: Store, words: str, limit: int, *, as_json: bool) -> None:
    async with home.index(store) as index:
        with working("searching"):
            hits = await index.search(Search(words, limit=limit, all_words=True))
    if as_json:
        say_json(hits)
    elif hits:
        table(_FOUND, [[hit.thread, str(hit.seq), hit.snippet] for hit in hits])
    else:
        say(f"nothing contains all of {words!r}; try fewer words")
