"""Telling: what is said of an engine, and to whom.

Owns the three who hear of it: the user gets a line, once a turn; whoever debugs gets
counts and names; health keeps the newest failure until the same operation works again.
Invariant: a report holds our words only, because an engine's may be the conversation's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from ..core.errors import EngineFailed, StaleEpoch
from ..log.thread_log import ThreadLog
from .reports import Action, EngineReported
from .slot import EngineChoice
from .view_change import InvalidEngineOutput

__all__ = ["EngineReporter"]

_log = logging.getLogger(__name__)

_GOES_ON = "the turn goes on, and the engine is asked again next time"


class EngineReporter(Struct):
    """What is said of the engine of one thread."""

    log: ThreadLog
    slot: EngineChoice
    notify: Callable[[str], None]
    listen: Callable[[EngineReported], None]
    _said: set[str] = field(default_factory=set)

    def begin_turn(self) -> None:
        """A turn begins: what the user was told before may be told again."""
        self._said.clear()

    def warn(self, line: str) -> None:
        """Tell the user, once a turn: what fails at every step is still one thing to know."""
        if line not in self._said:
            self._said.add(line)
            self.notify(line)

    def report(self, action: Action, **facts: Any) -> None:
        """Tell whoever debugs."""
        log = self.log
        reported = EngineReported(
            action=action, thread=log.id, turn=log.turn, engine=self.slot.name, **facts
        )
        _log.debug("%s", reported)
        self.listen(reported)

    async def report_failure(
        self, error: EngineFailed, action: Action = "degraded", *, so: str = _GOES_ON
    ) -> None:
        """Tell everybody of a failure; the user also what comes of it."""
        self.report(action, reason=_plainly(error))
        self.warn(f"{error}; {so}")
        await self.slot.failed(error.operation, error.reason, self.log.id)

    async def record_failure(self, error: EngineFailed, action: Action) -> None:
        """Tell of a failure that its caller tells the user of."""
        self.report(action, reason=_plainly(error))
        await self.slot.failed(error.operation, error.reason, self.log.id)

    async def report_degraded(self, operation: str, reason: str) -> None:
        """Tell everybody that the turn runs without the engine."""
        self.report("degraded", reason=reason)
        self.warn(
            f"{reason}; this turn runs without engine {self.slot.name!r}, "
            "which is tried again on the next turn"
        )
        await self.slot.failed(operation, reason, self.log.id)

    async def clear_failures(self, *operations: str) -> None:
        """Let health forget failures that are over."""
        for operation in operations:
            await self.slot.worked(operation)


def _plainly(error: EngineFailed) -> str:
    """Why an engine failed, in our words."""
    cause = error.__cause__
    ours = cause is None or isinstance(cause, InvalidEngineOutput | StaleEpoch)
    return error.reason if ours else type(cause).__name__
