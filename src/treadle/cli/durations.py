"""How long something is, and when it was, as people write it: `90d`, `2026-11-15T09:30`.

Owns the units. Invariant: a number without a unit is refused, because nobody can tell what
it counts.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import click

__all__ = ["UNITS", "Duration", "parse_moment"]

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
"""Seconds of each unit."""

_DURATION = re.compile(r"(\d{1,9})([smhdw])")


def parse_moment(text: str) -> int:
    """Return a date, a date with a time of day, or how long ago, in milliseconds since 1970.

    Raises `ValueError`, which names what can be written.
    """
    if ago := _DURATION.fullmatch(text):
        return int((time.time() - int(ago[1]) * UNITS[ago[2]]) * 1000)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time; use 2026-11-15, 2026-11-15T09:30 or 7d"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


class Duration(click.ParamType):  # type: ignore[type-arg] # generic only for type checkers
    """A length of time in seconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds."""
        found = _DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is no length of time; use 90d, 36h or 30s", param, ctx)
        return float(int(found[1]) * UNITS[found[2]])
