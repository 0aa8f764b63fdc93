"""`treadle threads`: list threads, or search in them."""

from __future__ import annotations

import click

from ...core.money import Bill
from ...store.contract import MeasuresThreads, Search, Store, ThreadInfo
from ...store.json_views import thread_json
from ...store.thread_names import thread_name
from ..cli_home import Home
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..output import THREAD_TAIL, Column, iso, say, say_json, shown_bytes, table, working
from ..spending import own_prices, spent_by_thread

__all__ = ["command"]

_COLUMNS = (
    Column("THREAD", tail=THREAD_TAIL),
    Column("TITLE", gives=True),
    Column("TURNS", right=True, spare=2),
    Column("ENTRIES", right=True, spare=3),
    Column("SIZE", right=True, spare=4),
    Column("COST", right=True, spare=6),
    Column("UPDATED", spare=1),
    Column("FORKED FROM", spare=5),
)
_FOUND = (
    Column("THREAD", tail=THREAD_TAIL),
    Column("ENTRY", right=True),
    Column("TEXT", gives=True),
)


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
            await _list(home, store, limit, as_json=as_json)
        else:
            await _search(home, store, search, limit, as_json=as_json)


async def _list(home: Home, store: Store, limit: int, *, as_json: bool) -> None:
    found = await store.threads(limit=limit + 1)
    listed = [(info, await thread_name(store, info)) for info in found[:limit]]
    sizes = await _sizes(store, found[:limit])
    async with home.index(store) as index:
        bills = await spent_by_thread(store, index, found[:limit], own_prices(home))
    if as_json:
        say_json(
            [
                {
                    **thread_json(info),
                    "name": name,
                    "bytes": sizes.get(info.id),
                    "cost": bills.get(info.id, Bill()),
                }
                for info, name in listed
            ]
        )
        return
    if not listed:
        say('no threads yet; make one with `treadle new "your first input"`')
        return
    table(
        _COLUMNS,
        [_row(info, name, sizes.get(info.id), bills.get(info.id)) for info, name in listed],
    )
    if len(found) > limit:
        click.echo(f"more exist; show them with --limit {limit * 5}", err=True)


async def _sizes(store: Store, threads: list[ThreadInfo]) -> dict[str, int]:
    names = [info.id for info in threads]
    return await store.sizes(names) if isinstance(store, MeasuresThreads) else {}


def _row(info: ThreadInfo, name: str, size: int | None, bill: Bill | None) -> list[str]:
    origin = f"{info.parent} at {info.cut}" if info.parent else ""
    shown = "" if size is None else shown_bytes(size)
    figures = [str(info.turns), str(info.last), shown, "" if bill is None else str(bill)]
    return [info.id, name, *figures, iso(info.updated), origin]


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
