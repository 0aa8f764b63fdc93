"""Work: the turns that nobody runs.

Owns two small powers that a store may have besides its contract. Invariant: what they say is
a hint of where to look; whether a thread is free, its lease alone decides.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from msgspec import Struct

__all__ = ["FindsWork", "WakesWorkers", "Work"]


class Work(Struct, frozen=True, kw_only=True):
    """A thread with something to do, and with nobody who does it."""

    thread: str
    since: int
    """When the turn was admitted, or the oldest message posted."""
    turn: str = ""
    """The id of the turn that somebody left open; empty where only messages wait."""


@runtime_checkable
class FindsWork(Protocol):
    """A store that finds the turns nobody runs, at a cost that depends on how many there are."""

    async def waiting(self, *, limit: int) -> list[Work]:
        """Return threads with work whose lease looks free, the longest waiting first.

        Work is a turn that was admitted and did not end, and a posted message of the kind
        ``input``: such a message starts a turn. A thread is returned once. That somebody had
        it who died is no reason to leave it out; that somebody has it is one.
        """
        ...


@runtime_checkable
class WakesWorkers(Protocol):
    """A store whose workers need not look again and again to hear of work soon."""

    async def announce_work(self) -> None:
        """Tell all who wait that there may be work. Never part of a commit; may be lost."""
        ...

    async def wait_for_work(self, seconds: float) -> None:
        """Return when work was announced, at the latest after `seconds`."""
        ...
