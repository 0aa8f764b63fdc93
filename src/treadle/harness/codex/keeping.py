"""Keeping: writing down what Codex does, also when the log cannot be written just then.

Owns what the log is owed. Codex has acted by the time we hear of it, so a full disk or a
lease that was lost ends nothing: the user is warned, and the items are offered again, in
order. Invariant: nothing is written before what came before it, unless the log takes
other things and never that one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from msgspec import Raw

from ...core.errors import LeaseLost, StoreError
from ..contract import TurnRun
from ..events import NoticeRaised
from .mirror import Mirror, MirrorResult

__all__ = ["LOG_ERRORS", "DeferredLog"]

LOG_ERRORS = (StoreError, LeaseLost)
"""How a log refuses what it is given."""

T = TypeVar("T")


class _Owed(NamedTuple):
    """An item that the log has not taken yet."""

    mirror: Mirror
    raw: Raw
    step: int


@dataclass(slots=True)
class DeferredLog:
    """The log of one turn, as far as it can be written."""

    run: TurnRun
    error: str = ""
    """Why the log last refused something."""
    _owed: deque[_Owed] = field(default_factory=deque)

    @property
    def pending(self) -> int:
        """How many items the log lacks."""
        return len(self._owed)

    async def write_item(self, mirror: Mirror, raw: Raw) -> list[MirrorResult]:
        """Mirror an item, behind those that are owed; what became of each."""
        self._owed.append(_Owed(mirror, raw, self.run.log.step))
        return await self.write_pending()

    async def write_pending(self) -> list[MirrorResult]:
        """Offer the log what it is owed, up to what it refuses; what became of the rest."""
        done: list[MirrorResult] = []
        while self._owed and (mirrored := await self._offered(self._owed[0])) is not None:
            self._owed.popleft()
            done.append(mirrored)
        return done

    async def attempt(self, work: Awaitable[T]) -> T | None:
        """What `work` gives; None where the log refused it."""
        try:
            return await work
        except LOG_ERRORS as error:
            self._refused(str(error))
            return None

    async def write_or_drop(self) -> int:
        """Write what is owed; how many items a log that takes others refuses for good.

        Raises what a log raises that takes nothing.
        """
        await self.write_pending()
        if not self._owed:
            return 0
        log = self.run.log
        await log.note("the log lacks some of what Codex did in this turn", level="warning")
        refused = [owed for owed in self._owed if await self._offered(owed) is None]
        self._owed.clear()
        return len(refused)

    def drop_pending(self) -> None:
        """Owe nothing more."""
        self._owed.clear()

    def warn(self, text: str) -> None:
        """Tell the user."""
        self.run.emit(NoticeRaised(level="warning", text=text))

    async def _offered(self, owed: _Owed) -> MirrorResult | None:
        """Write an item as one of the step that it came in."""
        log = self.run.log
        now, log.step = log.step, owed.step
        try:
            return await self.attempt(owed.mirror.write(owed.raw))
        finally:
            log.step = now

    def _refused(self, reason: str) -> None:
        if not self.error:
            self.warn(
                f"what Codex does cannot be written to the log: {reason}; Codex goes on, "
                "and the log gets it as soon as it takes it"
            )
        self.error = reason
