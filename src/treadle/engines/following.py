"""Following: an engine's rows in the outbox, left in the transactions of turns.

Owns what a row ``engine:<id>`` says. Invariants: a turn leaves its row whether or not
the engine can be reached, and whoever hands rows over can tell without looking that
none was left since.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Raw, Struct

from ..core.ids import new_id
from ..core.wire import Json, json_bytes
from ..log.thread_log import ThreadLog
from ..store.contract import Admission, OutboxDraft, TurnEnd

__all__ = ["EngineFollower", "EngineWork", "TurnStart", "decode_work", "topic_of"]


class EngineWork(Struct, frozen=True, omit_defaults=True):
    """What a row says."""

    turn: str = ""
    number: int = 0
    carried: tuple[int, ...] = ()
    """Turns before it that advanced nothing."""
    first: int = 0
    last: int = 0
    hidden: Literal["reset", "rollback"] | None = None
    """Not a turn: these entries were hidden."""


def decode_work(body: Json) -> EngineWork:
    """The work that a row of the outbox asks for."""
    return msgspec.json.decode(body, type=EngineWork)


class TurnStart(Struct, frozen=True):
    """The turn that was admitted last, if it was new: its number, and where it begins."""

    number: int = 0
    first: int = 0


def topic_of(engine: str) -> str:
    """The outbox topic of an engine."""
    return f"engine:{engine}"


class EngineFollower(Struct):
    """Leaves the rows of one thread's engine."""

    engine: str
    log: ThreadLog
    left: int = 0
    """How many rows were left so far, or may have been."""
    begun: TurnStart = TurnStart()
    _turn: str = ""

    def rows_on_admission(self, admission: Admission) -> tuple[OutboxDraft, ...]:
        """The turn may advance the engine."""
        self._turn = admission.id
        # A turn that was admitted before keeps its number, so this one will not be its.
        self.begun = TurnStart(self.log.turn + 1, self.log.view.upto + 1)
        return (self._row(f"turn:{admission.id}", EngineWork(admission.id)),)

    def rows_on_end(self, end: TurnEnd) -> tuple[OutboxDraft, ...]:
        """The turn will, if it was completed."""
        if end.state != "completed" or not self._turn:
            return ()
        work = EngineWork(self._turn, end.number)
        return (self._row(f"turn:{self._turn}", work, "accepted"),)

    def rows_on_hiding(
        self, first: int, last: int, reason: Literal["reset", "rollback"]
    ) -> tuple[OutboxDraft, ...]:
        """The engine should forget these entries."""
        work = EngineWork(first=first, last=last, hidden=reason)
        return (self._row(new_id("hide"), work, "ready"),)

    def _row(
        self,
        key: str,
        work: EngineWork,
        state: Literal["admitted", "accepted", "ready", "blocked"] = "admitted",
    ) -> OutboxDraft:
        self.left += 1
        body = Raw(json_bytes(work))
        return OutboxDraft(topic=topic_of(self.engine), key=key, body=body, state=state)
