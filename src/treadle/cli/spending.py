"""What was spent, as commands ask for it: up to date, of living threads, in local days.

Owns which answers count and how they are grouped. Invariant: bodies of items are never read;
what was counted before is not read again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Literal, TypeAlias

import click
from msgspec import Struct

from ..config import load_config
from ..config.settings import Price
from ..core.errors import ConfigError, NotFound, StoreError
from ..core.money import Bill
from ..log.bills import Spent, cost_of, group_spent, spent_on
from ..log.usages import catch_up_usages
from ..store.contract import Index, Store, ThreadInfo
from ..store.counted_usage import CountsUsage, RequestUsage
from ..store.thread_names import thread_name
from ..subagents.access import find_lineage
from .cli_home import Home

__all__ = [
    "GROUPINGS",
    "Group",
    "Grouping",
    "Spending",
    "day_start",
    "own_prices",
    "read_spending",
    "spent_by_thread",
]

Grouping: TypeAlias = Literal["day", "project", "model", "thread", "agent"]
GROUPINGS: tuple[Grouping, ...] = ("day", "project", "model", "thread", "agent")

_NOBODY = "no agent"


class Group(Struct, frozen=True):
    """What one day, project, model, thread or agent cost."""

    key: str
    label: str
    spent: Spent


class Spending(Struct, frozen=True):
    """What was spent in a span of time, in groups."""

    by: Grouping
    since: int
    """In milliseconds since 1970."""
    groups: list[Group]
    total: Spent
    unpriced: dict[str, int]
    """How many answers of each model have no price."""
    unreported: int = 0
    """How many answers came without their usage."""


async def read_spending(
    store: Store,
    index: Index,
    by: Grouping,
    *,
    since: int = 0,
    own: Mapping[str, Price],
) -> Spending:
    """Return what was spent since a time, with all that was answered until now."""
    threads = {info.id: info for info in await store.threads()}
    if not threads:
        return Spending(by, since, [], Spent(), {})
    assert isinstance(index, CountsUsage), "an index of our own keeps what answers used"
    await catch_up_usages(store, index, list(threads.values()))
    # The index may know threads that were deleted since.
    rows = [row for row in await index.usages(since=since) if row.thread in threads]
    reported = [row for row in rows if row.usage is not None]
    return Spending(
        by,
        since,
        await _groups(store, threads, rows, by, own),
        spent_on(rows, own),
        dict(Counter(_model(row) for row in reported if cost_of(row, own) is None)),
        len(rows) - len(reported),
    )


async def spent_by_thread(
    store: Store, index: Index, infos: Sequence[ThreadInfo], own: Mapping[str, Price]
) -> dict[str, Bill]:
    """Return what each of these threads has cost."""
    if not infos:
        return {}
    assert isinstance(index, CountsUsage), "an index of our own keeps what answers used"
    await catch_up_usages(store, index, infos)
    rows = await index.usages(threads=[info.id for info in infos])
    return {name: each.bill for name, each in group_spent(rows, lambda r: r.thread, own).items()}


async def _groups(
    store: Store,
    threads: Mapping[str, ThreadInfo],
    rows: Sequence[RequestUsage],
    by: Grouping,
    own: Mapping[str, Price],
) -> list[Group]:
    match by:
        case "day":
            days = group_spent(rows, lambda row: _day(row.time).isoformat(), own)
            return [Group(day, day, days[day]) for day in sorted(days)]
        case "project":
            found = group_spent(rows, lambda row: threads[row.thread].cwd, own)
        case "model":
            found = group_spent(rows, _model, own)
        case "thread":
            found = group_spent(rows, lambda row: row.thread, own)
            names = {key: await thread_name(store, threads[key]) for key in found}
            return _dearest(found, names)
        case "agent":
            agents = {name: await _agent(store, threads[name]) for name in _threads(rows)}
            found = group_spent(rows, lambda row: row.thread if agents[row.thread] else "", own)
            return _dearest(found, {**agents, "": _NOBODY})
    return _dearest(found, {})


def own_prices(home: Home) -> Mapping[str, Price]:
    """Return the user's own prices.

    Threads can be listed and shown while the configuration is wrong; it is told what is.
    """
    try:
        return load_config(home.path, Path().absolute(), os.environ).settings.prices
    except ConfigError as error:
        click.echo(f"{error}; costs are shown without your own prices", err=True)
        return {}


def _dearest(found: Mapping[str, Spent], names: Mapping[str, str]) -> list[Group]:
    """Return the groups, the dearest first."""
    ordered = sorted(found.items(), key=lambda each: (-_size(each[1]), each[0]))
    return [Group(key, names.get(key, key), spent) for key, spent in ordered]


def _size(spent: Spent) -> float:
    return sum(spent.bill.amounts.values())


async def _agent(store: Store, info: ThreadInfo) -> str:
    """Return the name of an agent, and whose it is; nothing for a thread that nobody started."""
    try:
        lineage = await find_lineage(store, info)
    except (NotFound, StoreError):
        return ""
    return f"{lineage.nickname} of {lineage.parent}" if lineage else ""


def _threads(rows: Sequence[RequestUsage]) -> dict[str, None]:
    return dict.fromkeys(row.thread for row in rows)


def _model(row: RequestUsage) -> str:
    return f"{row.provider}:{row.model}" if row.model else "not known"


def _day(milliseconds: int) -> date:
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().date()


def day_start(days_ago: int = 0, *, today: date | None = None) -> int:
    """Return when a day began here, in milliseconds since 1970."""
    day = (today or datetime.now().astimezone().date()) - timedelta(days=days_ago)
    return int(datetime.combine(day, time()).astimezone().timestamp() * 1000)
