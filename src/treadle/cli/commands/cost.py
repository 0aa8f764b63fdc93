"""`treadle cost`: show what was spent."""

from __future__ import annotations

import os
import time
from datetime import date
from pathlib import Path

import click

from ...config import Settings, load_config
from ...core.money import Bill
from ...log.bills import Spent
from ..cli_home import Home
from ..command_options import as_json, runs
from ..cost_plots import draw_plot, svg_plot
from ..durations import UNITS, Duration
from ..lazy_group import examples
from ..output import THREAD_TAIL, Column, say, say_json, table
from ..spending import GROUPINGS, Grouping, Spending, day_start, read_spending

__all__ = ["command"]

_DAYS = 30
_SECONDS_OF_DAY = 86_400


class Since(click.ParamType):  # type: ignore[type-arg] # generic only for type checkers
    """A day, or how long ago."""

    name = "since"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return milliseconds since 1970; whole days begin at midnight, here."""
        text = str(value)
        try:
            return day_start(today=date.fromisoformat(text))
        except (ValueError, OverflowError):
            pass
        if text[-1:] not in UNITS or not text[:-1].isdecimal():
            self.fail(f"{text!r} is no day and no length of time; use 2026-11-01, 7d or 36h")
        seconds = Duration().convert(text, param, ctx)
        if seconds % _SECONDS_OF_DAY == 0:
            return day_start(min(int(seconds) // _SECONDS_OF_DAY, 20_000) - 1)
        return int((time.time() - seconds) * 1000)


@click.command(
    "cost",
    epilog=examples(
        "treadle cost",
        "treadle cost --by model --since 7d",
        "treadle cost --by project --since 2026-11-01 --plot",
    ),
)
@click.option(
    "--by",
    type=click.Choice(GROUPINGS),
    default="day",
    show_default=True,
    help="What a row stands for.",
)
@click.option(
    "--since",
    type=Since(),
    metavar="DAY|TIME",
    help="From this day on, or so long ago: 2026-11-01, 7d, 36h.  [default: 30d]",
)
@click.option("--plot", is_flag=True, help="Draw bars.")
@click.option("--plain", is_flag=True, help="Draw bars without blocks.")
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the bars into a file.",
)
@as_json
@runs
async def command(
    home: Home,
    *,
    by: Grouping,
    since: int | None,
    plot: bool,
    plain: bool,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Show what was spent: by day, project (directory), model, thread or agent.

    Every answer counts, with the price of its time: those of agents, those that were rolled
    back, and those outside conversations, such as summaries. What was only imported has no
    usage, and what was deleted is gone. A cost that nobody knows is never counted as zero:
    the sum is then `at least` what is shown. `prices` in the settings are your own.
    """
    settings = _settings(home)
    since = day_start(_DAYS - 1) if since is None else since
    async with home.store() as store, home.index(store) as index:
        found = await read_spending(store, index, by, since=since, own=settings.prices)
    if svg is not None:
        _write(svg, svg_plot(found))
    if as_json:
        say_json(_json(found))
    elif not found.groups:
        say("nothing was spent in this time")
    elif plot:
        for line in draw_plot(found, plain=plain or settings.plain):
            say(line)
    else:
        _print(found)


def _settings(home: Home) -> Settings:
    return load_config(home.path, Path().absolute(), os.environ).settings


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(
            f"cannot write {str(path)!r}: {error.strerror}; name another file"
        ) from error


def _print(found: Spending) -> None:
    first = Column(
        found.by.upper(),
        gives=found.by not in ("day", "thread"),
        tail=THREAD_TAIL if found.by == "thread" else 0,
    )
    columns = [
        first,
        *([Column("TITLE", gives=True)] if found.by == "thread" else []),
        Column("ANSWERS", right=True, spare=1),
        Column("INPUT", right=True),
        Column("CACHED", right=True, spare=2),
        Column("OUTPUT", right=True),
        Column("COST", right=True),
    ]
    rows = [
        [*((each.key, each.label) if found.by == "thread" else (each.label,)), *_cells(each.spent)]
        for each in found.groups
    ]
    total = ["total", *([""] if found.by == "thread" else []), *_cells(found.total)]
    table(columns, [*rows, total])
    if not found.total.bill.known:
        say("")
    if found.unpriced:
        named = ", ".join(f"{model} ({count:,})" for model, count in found.unpriced.items())
        say(f"answers without a known price: {named}")
        say('your own prices go into the settings: [prices."MODEL"]')
    if found.unreported:
        say(f"answers that came without their usage: {found.unreported:,}")


def _cells(spent: Spent) -> list[str]:
    usage = spent.usage
    cached = usage.cached_input_tokens
    return [
        f"{spent.bill.requests:,}",
        f"{usage.input_tokens:,}",
        "" if cached is None else f"{cached:,}",
        f"{usage.output_tokens:,}",
        str(spent.bill),
    ]


def _json(found: Spending) -> dict[str, object]:
    return {
        "by": found.by,
        "since": found.since,
        "groups": [
            {"key": each.key, "label": each.label, **_spent_json(each.spent)}
            for each in found.groups
        ],
        "total": _spent_json(found.total),
        "unpriced": found.unpriced,
        "unreported": found.unreported,
    }


def _spent_json(spent: Spent) -> dict[str, object]:
    bill: Bill = spent.bill
    return {
        "answers": bill.requests,
        "unpriced": bill.unpriced,
        "cost": bill.amounts,
        "usage": spent.usage,
    }
