"""What draining came to.

Invariant: what was put aside is named, with its reason; nothing is dropped without a word.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

__all__ = ["Aside", "Drained", "merged"]


class Aside(Struct, frozen=True):
    """A delivery that will not be tried again by itself."""

    key: str
    reason: str


class Drained(Struct, frozen=True, kw_only=True):
    """One pass, or several."""

    delivered: int = 0
    suppressed: int = 0
    """Turns that had nothing to tell."""
    held: int = 0
    """Deliveries that wait to be acknowledged."""
    pending: int = 0
    """Deliveries that wait for a later attempt, or for a channel that is not here."""
    due: float | None = None
    """When the first of them should be tried again, by the clock."""
    aside: tuple[Aside, ...] = ()
    unrouted: tuple[Aside, ...] = ()
    """Replies that could go nowhere; they are kept in their thread."""
    busy: tuple[str, ...] = ()
    """Threads that somebody else writes, and delivers for."""


def merged(reports: Sequence[Drained]) -> Drained:
    """Several reports in one."""
    dues = [report.due for report in reports if report.due is not None]
    return Drained(
        delivered=sum(report.delivered for report in reports),
        suppressed=sum(report.suppressed for report in reports),
        held=sum(report.held for report in reports),
        pending=sum(report.pending for report in reports),
        due=min(dues, default=None),
        aside=tuple(each for report in reports for each in report.aside),
        unrouted=tuple(each for report in reports for each in report.unrouted),
        busy=tuple(each for report in reports for each in report.busy),
    )
