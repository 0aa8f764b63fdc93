"""`treadle show`: read a thread."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import click

from ...core.entries import Entry, Rollback
from ...store.contract import Store
from ..cli_home import Home, find_thread
from ..command_options import as_json, runs, thread_argument
from ..json_views import entry_json
from ..lazy_group import examples
from ..output import say, say_json
from ..transcript import Transcript

__all__ = ["command"]

_PAGE = 512


@click.command(
    "show",
    epilog=examples(
        "treadle show last",
        "treadle show last --all --limit 20",
        "treadle show last --json | jq -c .item",
    ),
)
@thread_argument
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also print context, control entries and entries that were rolled back.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Print only the newest N entries.")
@as_json
@runs
async def command(
    home: Home, name: str, everything: bool, limit: int | None, as_json: bool
) -> None:
    """Print a thread: messages, calls, outputs and notices.

    With --json every entry of the log is one object on one line; `visible` tells
    whether it still counts or was rolled back.
    """
    async with home.store() as store:
        thread = (await find_thread(store, name)).id
        transcript = Transcript(everything=everything)
        if as_json:
            await _print(store, thread, limit, lambda _entry, _visible: True, _print_json)
        else:
            await _print(store, thread, limit, transcript.shows, _entry_printer(transcript))


def _print_json(entry: Entry, visible: bool) -> None:
    say_json(entry_json(entry, visible=visible))


def _entry_printer(transcript: Transcript) -> Callable[[Entry, bool], None]:
    def print_entry(entry: Entry, visible: bool) -> None:
        heading, body = transcript.block(entry, visible=visible)
        click.secho(heading, bold=True)
        if body:
            say(body)
        say("")

    return print_entry


async def _print(
    store: Store,
    thread: str,
    limit: int | None,
    wanted: Callable[[Entry, bool], bool],
    show: Callable[[Entry, bool], None],
) -> None:
    """Show the wanted entries in log order, a page at a time."""
    first, hidden = await _survey(store, thread, limit, wanted)
    last = (await store.info(thread)).last
    while first <= last:
        page = await store.read(thread, first, last, limit=_PAGE)
        if not page:
            return
        for entry in page:
            # The stretches are disjoint, the oldest last.
            while hidden and hidden[-1][1] <= entry.seq:
                hidden.pop()
            visible = not (hidden and hidden[-1][0] <= entry.seq)
            if wanted(entry, visible):
                show(entry, visible)
        first = page[-1].seq + 1


async def _survey(
    store: Store, thread: str, limit: int | None, wanted: Callable[[Entry, bool], bool]
) -> tuple[int, list[tuple[int, int]]]:
    """Where to begin, and the stretches that rollbacks hide."""
    hidden: list[tuple[int, int]] = []
    first, left = 1, limit
    async with aclosing(_backwards(store, thread)) as entries:
        async for entry in entries:
            visible = not (hidden and hidden[-1][0] <= entry.seq < hidden[-1][1])
            if left is not None and wanted(entry, visible):
                left, first = left - 1, entry.seq
                if not left:
                    return first, hidden
            control = entry.control if visible and entry.kind == "rollback" else None
            if isinstance(control, Rollback):
                hidden.append((control.cut, entry.seq))
    return 1 if limit is None else first, hidden


async def _backwards(store: Store, thread: str) -> AsyncGenerator[Entry, None]:
    last = (await store.info(thread)).last
    while last > 0:
        page = await store.read(thread, 1, last, reverse=True, limit=_PAGE)
        if not page:
            return
        for entry in page:
            yield entry
        last = page[-1].seq - 1
