"""`treadle cache`: show the ledger as a table."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from ...context.rebuild import Rebuilt, rebuild_ledger
from ...prompt.registry import installed_registry
from ...store.contract import Index, LedgerRow, Store
from ...store.sqlite import SqliteStore
from ..cli_home import Home, find_thread
from ..command_options import as_json, runs, shown_thread_argument
from ..lazy_group import examples
from ..output import Column, counted, say, say_json, table, working

__all__ = ["command", "ledger_json"]

_COLUMNS = (
    Column("STEP"),
    Column("EPOCH", right=True),
    Column("SENT", right=True),
    Column("SHARED", right=True),
    Column("%", right=True),
    Column("CACHED TOKENS", right=True),
    Column("REASON", gives=True),
)


@click.command(
    "cache", epilog=examples("treadle cache last", "treadle cache last --rebuild --check")
)
@shown_thread_argument
@click.option("--check", is_flag=True, help="Exit with 1 when a prefix broke without a reason.")
@click.option(
    "--rebuild", is_flag=True, help="Compute the ledger from the log again and compare the bytes."
)
@as_json
@runs
async def command(home: Home, name: str, check: bool, rebuild: bool, as_json: bool) -> None:
    """Show how much of each request is the same as in the request before it.

    A provider can cache only an unchanged prefix. The prefix may change only where an entry
    of the log gives the reason. A change without a reason is a defect and is shown as
    UNEXPLAINED.
    """
    rebuilt = None
    async with home.store() as store:
        thread = (await find_thread(store, name)).id
        async with home.index(store) as index:
            if rebuild:
                rebuilt = await _rebuild(store, index, thread)
            rows = await index.rows(thread)
    if as_json:
        say_json(ledger_json(thread, rows, rebuilt))
    else:
        _print(rows, rebuilt)
    if check and (any(row.unexplained for row in rows) or (rebuilt and rebuilt.differing)):
        raise click.exceptions.Exit(1)


async def _rebuild(store: Store, index: Index, thread: str) -> Rebuilt:
    # A writer would go on adding to a ledger that is being replaced.
    readable = isinstance(store, SqliteStore) and store.read_only
    lease = None if readable else await store.acquire(thread)
    try:
        with working("rendering every request again"):
            registry = await asyncio.to_thread(installed_registry)
            return await rebuild_ledger(store, index, thread, registry)
    finally:
        if lease is not None:
            await lease.release()


def ledger_json(
    thread: str, rows: Sequence[LedgerRow], rebuilt: Rebuilt | None = None
) -> dict[str, object]:
    """Return the requests of a thread and their sums."""
    return {
        "thread": thread,
        "requests": rows,
        "totals": {
            "requests": len(rows),
            "sent": sum(row.size for row in rows),
            "shared": sum(row.shared_size for row in rows),
            "unexplained": sum(row.unexplained for row in rows),
            "input_tokens": _sum_of_reported([row.input_tokens for row in rows]),
            "cached_tokens": _sum_of_reported([row.cached_tokens for row in rows]),
        },
        "rebuilt": rebuilt,
    }


def _print(rows: Sequence[LedgerRow], rebuilt: Rebuilt | None) -> None:
    if rows:
        table(_COLUMNS, [_row(row) for row in rows])
        say("")
        say(_totals(rows))
    elif rebuilt is None:
        say("the index has no request; if the index was lost, --rebuild computes it from the log")
    else:
        say("this thread has sent no request yet")
    if rebuilt is not None:
        say(_comparison(rebuilt))
    for row in rows:
        if row.unexplained:
            click.secho(
                f"UNEXPLAINED: request {row.turn}.{row.step} broke its prefix at "
                f"{row.difference}, and no entry says why; this is a defect, please report it",
                fg="red",
                bold=True,
                err=True,
            )


def _row(row: LedgerRow) -> list[str]:
    return [
        f"{row.turn}.{row.step}",
        str(row.epoch),
        f"{row.size:,}",
        f"{row.shared_size:,}",
        str(_percent(row.shared_size, row.size)),
        "" if row.cached_tokens is None else f"{row.cached_tokens:,}",
        _reason(row),
    ]


def _reason(row: LedgerRow) -> str:
    reason = "UNEXPLAINED" if row.unexplained else row.reason or ""
    return f"{reason} at {row.difference}" if row.difference else reason


def _totals(rows: Sequence[LedgerRow]) -> str:
    sent, shared = sum(row.size for row in rows), sum(row.shared_size for row in rows)
    breaks = sum(row.difference is not None for row in rows)
    said = (
        f"{counted(len(rows), 'request')}, {sent:,} bytes sent, {shared:,} shared "
        f"({_percent(shared, sent)}%), {counted(breaks, 'break')}"
    )
    cached = _sum_of_reported([row.cached_tokens for row in rows])
    given = _sum_of_reported([row.input_tokens for row in rows])
    if cached is not None and given:
        said += f", {cached:,} of {given:,} input tokens cached ({_percent(cached, given)}%)"
    return said


def _comparison(rebuilt: Rebuilt) -> str:
    if not rebuilt.differing:
        return f"rebuilt {rebuilt.requests} requests from the log; every byte is the same"
    listed = ", ".join(map(str, rebuilt.differing))
    return (
        f"rebuilt {rebuilt.requests} requests from the log; {len(rebuilt.differing)} have OTHER "
        f"BYTES than were sent, at entries {listed}"
    )


def _percent(part: int, whole: int) -> int:
    return 100 * part // whole if whole else 0


def _sum_of_reported(figures: Sequence[int | None]) -> int | None:
    """Return the sum of the reported figures; None when there are none."""
    reported = [figure for figure in figures if figure is not None]
    return sum(reported) if reported else None
