"""Plots of what was spent: bars in a terminal, or in a picture.

Owns how they look. Invariant: every bar stands beside its figure, so that nobody has to
measure; days on which nothing was spent have a place, too.
"""

from __future__ import annotations

from datetime import date, timedelta
from shutil import get_terminal_size

from msgspec import Struct

from ..core.svg_bars import SvgBar, draw_svg
from ..log.bills import Spent
from .output import one_line
from .spending import Group, Spending

__all__ = ["draw_plot", "svg_plot"]

_EIGHTHS = " ▏▎▍▌▋▊▉"
_WIDEST = 80
_LONGEST_LABEL = 28
_MOST_DAYS = 400
"""Of a longer time, only days with spending are shown."""


class _Bar(Struct, frozen=True):
    label: str
    amount: float
    shown: str


def draw_plot(found: Spending, *, plain: bool = False) -> list[str]:
    """Return the lines of a plot for a terminal; `plain` uses no characters beyond ASCII."""
    bars = _bars(found)
    width = min(get_terminal_size().columns, _WIDEST)
    shown = max(len(bar.shown) for bar in bars)
    label = min(max(len(bar.label) for bar in bars), _LONGEST_LABEL, width // 3)
    room = max(width - label - shown - 2, 4)
    most = max(bar.amount for bar in bars) or 1.0
    lines = []
    for bar in bars:
        drawn = _bar(bar.amount / most * room, plain=plain).ljust(room)
        lines.append(f"{_fit(bar.label, label, plain=plain)} {drawn} {bar.shown.rjust(shown)}")
    return [*lines, f"total {found.total.bill}"]


def _bar(length: float, *, plain: bool) -> str:
    if plain:
        return "#" * max(round(length), length > 0)
    whole, part = divmod(round(length * 8), 8)
    drawn = "█" * whole + _EIGHTHS[part].strip()
    return drawn or ("▏" if length else "")


def _fit(label: str, width: int, *, plain: bool = False) -> str:
    """Return a label that is `width` long; of a path, the end is shown."""
    dots, label = "..." if plain else "…", one_line(label)
    if len(label) <= width:
        return label.ljust(width)
    room = width - len(dots)
    return f"{dots}{label[-room:]}" if label.startswith("/") else f"{label[:room]}{dots}"


def _bars(found: Spending) -> list[_Bar]:
    groups = _with_empty_days(found.groups) if found.by == "day" else found.groups
    return [_Bar(each.label, _amount(each), _bill_text(each)) for each in groups]


def _amount(group: Group) -> float:
    # Bars of several currencies cannot be compared; the figures beside them can.
    return sum(group.spent.bill.amounts.values())


def _bill_text(group: Group) -> str:
    return str(group.spent.bill) if group.spent.bill.requests else "-"


def _with_empty_days(groups: list[Group]) -> list[Group]:
    first, last = (date.fromisoformat(groups[at].key) for at in (0, -1))
    if (last - first).days > _MOST_DAYS:
        return groups
    known = {each.key: each for each in groups}
    days = [(first + timedelta(days=n)).isoformat() for n in range((last - first).days + 1)]
    return [known.get(day) or Group(day, day, Spent()) for day in days]


def svg_plot(found: Spending) -> str:
    """Return a picture of the bars; it needs no fonts and no scripts of its own."""
    bars = _bars(found) if found.groups else []
    shown = [SvgBar(_fit(bar.label, _LONGEST_LABEL).strip(), bar.amount, bar.shown) for bar in bars]
    return draw_svg(f"Cost by {found.by}: {found.total.bill}", shown)
