"""`treadle show`: read a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing

import click

from ...core.entries import Entry
from ...core.money import Cost
from ...log.bills import cost_of
from ...log.usages import thread_usages
from ...store.contract import Store
from ...store.json_views import entry_json
from ..cli_home import Home, find_thread
from ..command_options import as_json, runs, shown_thread_argument
from ..lazy_group import examples
from ..output import say, say_json
from ..spending import own_prices
from ..transcript import Transcript
from ..wanted_entries import wanted_entries

__all__ = ["command"]


@click.command(
    "show",
    epilog=examples(
        "treadle show last",
        "treadle show last --all --limit 20",
        "treadle show last --follow",
        "treadle show last --json | jq -c .item",
    ),
)
@shown_thread_argument
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also print context, control entries and entries that were rolled back.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Print only the newest N entries.")
@click.option("--follow", "-f", is_flag=True, help="Go on printing what happens in it.")
@as_json
@runs
async def command(
    home: Home, *, name: str, everything: bool, limit: int | None, follow: bool, as_json: bool
) -> None:
    """Print a thread: messages, calls, outputs and notices; by default the last one here.

    With --json every entry of the log is one object on one line; `visible` tells
    whether it still counts or was rolled back.

    With --follow, what is written later is printed too, whoever writes it and where, until
    Ctrl-C; and an answer of a worker (`treadle work`) while it is made.
    """
    async with home.store() as store:
        thread = (await find_thread(store, name)).id
        seen = (await store.info(thread)).last
        costs = await _costs(home, store, thread) if everything or as_json else {}
        transcript = Transcript(everything=everything, costs=costs)
        if as_json:
            await _print(store, thread, limit, lambda _entry, _visible: True, _json_printer(costs))
        else:
            shown = await _print(store, thread, limit, transcript.shows, _entry_printer(transcript))
            if not shown and not follow:
                click.echo("nothing of it is visible; --all prints what was taken back", err=True)
        if follow:
            from ..following import follow_thread

            await follow_thread(home, store, thread, seen, transcript, as_json=as_json)


async def _costs(home: Home, store: Store, thread: str) -> dict[int, Cost | None]:
    """Return what each answer of the thread cost, by the entry in which it ended."""
    own = own_prices(home)
    return {row.seq: cost_of(row, own) for row in await thread_usages(store, thread)}


def _json_printer(costs: Mapping[int, Cost | None]) -> Callable[[Entry, bool], None]:
    def print_json(entry: Entry, visible: bool) -> None:
        cost = {"cost": costs.get(entry.seq)} if entry.kind == "response" else {}
        say_json({**entry_json(entry, visible=visible), **cost})

    return print_json


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
) -> int:
    """Show the wanted entries in log order; return how many there were."""
    count = 0
    async with aclosing(wanted_entries(store, thread, limit, wanted)) as entries:
        async for entry, visible in entries:
            show(entry, visible)
            count += 1
    return count
