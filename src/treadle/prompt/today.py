"""Today: the date and the time zone of the user.

Owns the one look at the clock on the prompt's behalf. Invariant: rendering never looks; what
a clock said is recorded with what was told of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from msgspec import Struct

__all__ = ["Clock", "MachineClock", "Today", "zone_name"]

_LOCAL = "/etc/localtime"
_ZONES = "zoneinfo/"


class Today(Struct, frozen=True):
    """What a clock says."""

    date: str
    """Such as ``2026-11-16``."""
    timezone: str = ""
    """Such as ``Europe/Copenhagen``, or an offset where the zone has no name."""


Clock: TypeAlias = Callable[[], Today]
"""Says what day it is."""


class MachineClock(Struct, frozen=True):
    """The clock of this machine, in its time zone."""

    def __call__(self) -> Today:
        """Return what day it is."""
        now = datetime.now(UTC).astimezone()
        return Today(now.date().isoformat(), zone_name(os.environ, now.utcoffset() or timedelta()))


def zone_name(environ: Mapping[str, str], offset: timedelta) -> str:
    """Return the name of the zone that the system keeps, else the offset."""
    named = environ.get("TZ", "").removeprefix(":")
    if not named:
        try:
            named = os.readlink(_LOCAL)  # noqa: PTH115 - where it leads is its name
        except OSError:
            named = ""
    named = named.partition(_ZONES)[2] if _ZONES in named else named
    if "/" in named and not named.startswith(("/", ".")):
        return named
    if named.upper() in ("UTC", "ETC/UTC") or not offset:
        return "UTC"
    minutes = round(offset.total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    return f"UTC{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
