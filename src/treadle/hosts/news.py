"""News: what a worker says of itself.

Owns the values that `treadle work --json` prints, one on a line. Invariant: a turn that was
taken is spoken of again: how it ended, that it was left, or why it failed.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from ..harness.events import TurnStatus

__all__ = ["News", "Troubled", "TurnEnded", "TurnFailed", "TurnHandedBack", "TurnTaken", "Yielded"]


class TurnTaken(Struct, frozen=True, kw_only=True, tag="taken"):
    """The worker has the thread, and goes on with its turn."""

    thread: str
    turn: str
    attempt: int = 1
    """Counts those who had the turn before and died, or failed."""


class TurnEnded(Struct, frozen=True, kw_only=True, tag="ended"):
    """The turn is over."""

    thread: str
    turn: str
    status: TurnStatus
    error: str | None = None


class TurnHandedBack(Struct, frozen=True, kw_only=True, tag="handed_back"):
    """The turn is open, and whoever is next goes on with it."""

    thread: str
    turn: str


class TurnFailed(Struct, frozen=True, kw_only=True, tag="attempt_failed"):
    """The turn could not be run, and why; it is tried again, or was given up."""

    thread: str
    error: str
    attempts: int
    gave_up: bool


class Yielded(Struct, frozen=True, kw_only=True, tag="yielded"):
    """Somebody else has the thread."""

    thread: str
    holder: str = ""


class Troubled(Struct, frozen=True, kw_only=True, tag="trouble"):
    """The store could not be reached; the worker goes on trying."""

    error: str


News: TypeAlias = TurnTaken | TurnEnded | TurnHandedBack | TurnFailed | Yielded | Troubled
