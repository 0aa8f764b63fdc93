"""Advancing an engine: from a turn's end to the engine's knowledge of it, through the outbox.

Owns the way of a row ``engine:<id>``: admitted with the turn, accepted with its end, ready
once its range is fixed, gone once the engine has it. Invariants: a turn leaves its row whether
or not the engine can be reached; rows are handed over in order and stay until the engine has
them; a turn that failed or was aborted advances nothing, and its items travel, marked, with
the next accepted turn; and a turn that was seen to its end is handed over with one write.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from ..context.row import Row
from ..context.view import load_view
from ..core.capability import offers
from ..core.entries import Epoch, Reason
from ..core.errors import EngineFailed, NotFound, StoreCorrupt, StoreTooNew
from ..core.ids import new_id
from ..core.typed import decode_json
from ..core.wire import Json, json_bytes
from ..log.thread_log import ThreadLog
from ..store.contract import Admission, OutboxDraft, OutboxRow, Store, Turn, TurnEnd
from .call_context import CallContext, CallFields
from .contract import CommitsTurns, ContextEngine, FollowsTurns, IngestsBatches, Resets
from .conversation import ConversationFields, conversation_fields, named_rows, visible_rows
from .guard import EngineGuard
from .values import (
    AfterTurnParams,
    CommitParams,
    CommitResult,
    IngestBatchParams,
    IngestBatchResult,
    IngestParams,
    IngestResult,
    ResetParams,
    TurnOutcome,
)

__all__ = [
    "AdvanceResult",
    "EngineFollower",
    "EngineWork",
    "TurnAdvancer",
    "decode_work",
    "topic_of",
]

AT_ONCE = 16
"""How many rows are handed over in one go."""
_ROWS_OF_A_TURN = 2
"""One with its admission; its end leaves the same row again."""

_OUTCOMES: dict[str, TurnOutcome] = {"failed": "failed", "aborted": "aborted"}


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
    """Return the work that a row of the outbox asks for."""
    return decode_json(body, EngineWork)


def topic_of(engine: str) -> str:
    """Return the outbox topic of an engine."""
    return f"engine:{engine}"


class TurnStart(Struct, frozen=True):
    """The turn that was admitted last, if it was new: its number, and where it begins."""

    number: int = 0
    first: int = 0


class EngineFollower(Struct):
    """Leaves rows for one thread's engine, in the transactions of the thread's turns."""

    engine: str
    log: ThreadLog
    left: int = 0
    """How many rows were left so far, or may have been."""
    newest: TurnStart = TurnStart()
    _turn: str = ""
    _ended: OutboxDraft | None = None
    """The row of that turn's end."""
    _left_before: int = 0
    """How many rows had been left before its own."""

    def rows_on_admission(self, admission: Admission) -> tuple[OutboxDraft, ...]:
        """Return the row of a turn that may advance the engine."""
        self._turn, self._ended, self._left_before = admission.id, None, self.left
        # A turn that was admitted before keeps its number, so this one will not be its.
        self.newest = TurnStart(self.log.turn + 1, self.log.view.upto + 1)
        return (self._row(f"turn:{admission.id}", EngineWork(admission.id)),)

    def rows_on_end(self, end: TurnEnd) -> tuple[OutboxDraft, ...]:
        """Return the row of a turn that will advance the engine, if it was completed."""
        if end.state != "completed" or not self._turn:
            return ()
        work = EngineWork(self._turn, end.number)
        self._ended = self._row(f"turn:{self._turn}", work, "accepted")
        return (self._ended,)

    def take_only_row(self, clean: int) -> OutboxDraft | None:
        """Return the row of the newest turn's end once, if none waited when `clean` had been left.

        Where the engine fails at it, what became of it is in the store.
        """
        ended, self._ended = self._ended, None
        own = (self._left_before, self.left - _ROWS_OF_A_TURN)
        return ended if own == (clean, clean) else None

    def rows_on_hiding(
        self, first: int, last: int, reason: Literal["reset", "rollback"]
    ) -> tuple[OutboxDraft, ...]:
        """Return the row that makes the engine forget these entries."""
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


class _RowResult(Struct, frozen=True):
    """What a row came to."""

    operation: str
    turns: int = 0
    items: int = 0


class _MarkedFields(ConversationFields):
    """A conversation, and what became of each item's turn."""

    outcomes: tuple[TurnOutcome, ...]


class AdvanceResult(Struct, frozen=True, kw_only=True):
    """What handing over came to."""

    turns: int = 0
    items: int = 0
    pending: int = 0
    """Rows that still wait for the engine."""
    open: bool = False
    """Whether there is a row of a turn that has not ended."""
    worked: frozenset[str] = frozenset()
    """What the engine did, as the contract calls it."""
    blocked: tuple[str, ...] = ()
    """Why rows were put aside."""
    failure: EngineFailed | None = None


class TurnAdvancer(Struct):
    """Hands an engine what waits for it in one thread."""

    engine: ContextEngine
    guard: EngineGuard
    context: CallContext
    follower: EngineFollower
    seconds: float
    _handed: int = 0
    """The newest turn that was handed over."""
    _clean: int = -1
    """How many rows had been left when none waited any more."""
    _outcomes: dict[int, TurnOutcome] = {}
    """What became of the turns in view; all of them have ended."""

    async def drain(self, most: int = AT_ONCE) -> AdvanceResult:
        """Hand over what waits, oldest first, until something fails."""
        left = self.follower.left
        if left == self._clean:
            return AdvanceResult()
        result = await self._hand_over_waiting(most)
        if not result.pending and not result.open:
            self._clean = left
        return result

    async def discard(self) -> None:
        """Remove what waits: the engine does not want to be told of turns."""
        rows = await self._store.outbox(thread=self._log.id, topic=topic_of(self.guard.info.id))
        if rows:
            await self._log.queue(settle=tuple(row.number for row in rows))

    async def _hand_over_waiting(self, most: int) -> AdvanceResult:
        done: list[_RowResult] = []
        blocked: list[str] = []
        failure: EngineFailed | None = None
        only = self.follower.take_only_row(self._clean)
        rows, is_open = ([only], False) if only is not None else await self._waiting_rows()
        while rows and failure is None and sum(each.turns for each in done) < most:
            try:
                done.append(await self._advance(rows[0]))
            except (StoreCorrupt, StoreTooNew) as error:
                blocked.append(str(error))
                await self._block(rows[0])
            except EngineFailed as error:
                await self._count_failure(rows[0], error)
                failure = error
                continue
            rows.pop(0)
        return AdvanceResult(
            turns=sum(each.turns for each in done),
            items=sum(each.items for each in done),
            pending=len(rows),
            open=is_open,
            worked=frozenset(each.operation for each in done),
            blocked=tuple(blocked),
            failure=failure,
        )

    @property
    def operation(self) -> str:
        """The call by which the engine is told of turns."""
        engine = self.engine
        if offers(engine, CommitsTurns):
            return "commit_turn"
        if offers(engine, FollowsTurns):
            return "after_turn"
        return "ingest_batch" if offers(engine, IngestsBatches) else "ingest"

    @property
    def _log(self) -> ThreadLog:
        return self.context.log

    @property
    def _store(self) -> Store:
        return self._log.store

    async def _count_failure(self, row: OutboxDraft, error: EngineFailed) -> None:
        for stored in await self._store.outbox(thread=self._log.id, topic=row.topic):
            if stored.key == row.key:
                await self._store.retry(stored.number, error.reason)

    async def _waiting_rows(self) -> tuple[list[OutboxDraft], bool]:
        """Return what waits, without rows put aside, and whether a turn is still open."""
        await self._log.done.settle()
        rows = await self._store.outbox(thread=self._log.id, topic=topic_of(self.guard.info.id))
        waiting = [row for row in rows if row.state != "blocked"]
        result: list[OutboxDraft] = []
        for row in waiting:
            settled = row if row.state != "admitted" else await self._settle(row)
            if settled is not None:
                result.append(settled)
        return result, len(result) < len(waiting)

    async def _settle(self, row: OutboxRow) -> OutboxRow | None:
        """Find what became of a turn whose end nobody noted for the engine."""
        turn = await self._find_turn(decode_work(row.body).turn)
        if turn is not None and turn.state == "completed":
            body = Raw(json_bytes(EngineWork(turn.id, turn.number)))
            return msgspec.structs.replace(row, state="accepted", body=body)
        if turn is None or turn.state in _OUTCOMES or turn.number < self._log.turn:
            await self._log.queue(settle=(row.number,))
        return None

    async def _find_turn(self, turn: str) -> Turn | None:
        recent = await self._store.turns(self._log.id, limit=4 * AT_ONCE)
        return next((one for one in reversed(recent) if one.id == turn), None)

    async def _advance(self, row: OutboxDraft) -> _RowResult:
        """Hand over one row, which then leaves the outbox."""
        work = decode_work(row.body)
        if work.hidden is not None:
            await self._reset(work)
            self._log.done.add((row.topic, row.key))
            await self._log.done.settle()
            return _RowResult("thread_reset")
        fresh = await self._fresh_rows(work) if row.state == "accepted" else None
        if fresh is not None:
            work = msgspec.structs.replace(
                work, first=self.follower.newest.first, last=self._log.view.upto
            )
        elif row.state == "accepted":
            work = await self._with_range(work)
            await self._rows_of(work)
            await self._fix_range(row, work)
        try:
            result = await self._hand_over(work, fresh or await self._rows_of(work))
        except EngineFailed:
            if fresh is not None:
                await self._fix_range(row, work)
            raise
        # Where a crash keeps the row, the engine is told again: it knows the key.
        self._log.done.add((row.topic, row.key))
        if fresh is None:
            await self._log.done.settle()
        self._handed = work.number
        return result

    async def _fix_range(self, row: OutboxDraft, work: EngineWork) -> None:
        """Store the range of a turn: however often it is handed over, it is the same."""
        body = Raw(json_bytes(work))
        await self._log.queue(OutboxDraft(topic=row.topic, key=row.key, body=body, state="ready"))

    async def _fresh_rows(self, work: EngineWork) -> list[tuple[Row, TurnOutcome]] | None:
        """Return the conversation of the newest turn, where the view shows all of it."""
        log, newest = self._log, self.follower.newest
        view, first = log.view, newest.first
        is_newest = work.number == newest.number == log.turn
        if not is_newest or view.base >= first or any(last >= first for _, last in view.gaps):
            return None
        if self._handed != work.number - 1 and await self._is_carried(work.number - 1):
            return None
        own = takewhile(lambda row: (row.seq or 0) >= first, reversed(view.rows))
        kept = [row for row in own if row.turn == work.number and not row.contextual]
        return [(row, "accepted") for row in reversed(kept)]

    async def _block(self, row: OutboxDraft) -> None:
        await self._log.queue(
            OutboxDraft(topic=row.topic, key=row.key, body=row.body, state="blocked")
        )

    async def _is_carried(self, number: int) -> bool:
        """Return whether a turn advanced nothing, so that the next one carries it."""
        return (await self._store.turn(self._log.id, number)).state in _OUTCOMES

    async def _with_range(self, work: EngineWork) -> EngineWork:
        """Find the entries of a turn, and of those before it that advanced nothing."""
        store, thread = self._store, self._log.id
        turn = await store.turn(thread, work.number)
        carried: list[int] = []
        first = turn.first
        while (earlier := work.number - len(carried) - 1) > 0:
            before = await store.turn(thread, earlier)
            if before.state not in _OUTCOMES:
                break
            carried.insert(0, earlier)
            first = before.first
        if carried:
            first = await self._since_reset(first, turn.first)
        last = await self._last_before(work.number + 1)
        return msgspec.structs.replace(work, carried=tuple(carried), first=first, last=last)

    async def _since_reset(self, first: int, last: int) -> int:
        """Return where carried entries begin: what the user has reset does not come back."""
        entries = await self._store.read(self._log.id, first, last)
        controls = [(entry.seq, entry.control) for entry in entries if entry.kind == "epoch"]
        resets = [
            seq
            for seq, control in controls
            if isinstance(control, Epoch) and control.reason is Reason.RESET
        ]
        return max((first, *resets))

    async def _last_before(self, number: int) -> int:
        try:
            return (await self._store.turn(self._log.id, number)).first - 1
        except NotFound:
            return self._log.view.upto

    async def _rows_of(self, work: EngineWork) -> list[tuple[Row, TurnOutcome]]:
        """Read the conversation of a turn and of those it carries, as it was at its end."""
        store, thread = self._store, self._log.id
        outcomes: dict[int, TurnOutcome] = {work.number: "accepted"}
        for number in work.carried:
            outcomes[number] = _OUTCOMES[(await store.turn(thread, number)).state]
        rows = await visible_rows(store, thread, work.first, work.last, upto=work.last)
        return [
            (row, outcomes[row.turn]) for row in rows if row.turn in outcomes and not row.contextual
        ]

    async def _hand_over(
        self, work: EngineWork, conversation: Sequence[tuple[Row, TurnOutcome]]
    ) -> _RowResult:
        """Tell the engine of a turn, in the best way it has."""
        rows = [pair for pair in conversation if not pair[0].volatile]
        engine = self.engine
        if offers(engine, CommitsTurns):
            await self._commit_turn(engine, work, rows)
        elif offers(engine, FollowsTurns):
            await self._after_turn(engine, work)
        elif offers(engine, IngestsBatches):
            await self._ingest_batch(engine, work, rows)
        else:
            await self._ingest(work, rows)
        return _RowResult(self.operation, 1, len(rows))

    async def _commit_turn(
        self, engine: CommitsTurns, work: EngineWork, rows: Sequence[tuple[Row, TurnOutcome]]
    ) -> None:
        own = [row.seq for row, _ in rows if row.turn == work.number and row.seq is not None]
        params = CommitParams(
            key=f"{self._log.id}/{work.number}",
            turn=work.turn,
            number=work.number,
            first=min(own, default=work.first),
            last=work.last,
            **self._marked_fields(rows),
            **self._call_fields(work),
        )
        await self.guard.call("commit_turn", engine.commit_turn, params, CommitResult, self.seconds)

    async def _after_turn(self, engine: FollowsTurns, work: EngineWork) -> None:
        """Show the view as it was when the turn ended, and where the turn began."""
        log = self._log
        view = log.view
        if view.upto != work.last:
            view = await load_view(log.store, log.id, log.registry, upto=work.last)
        rows = list(named_rows(log.id, view.rows).items())
        outcomes = await self._outcomes_of([row for _, row in rows])
        start = next((i for i, (_, row) in enumerate(rows) if row.turn == work.number), len(rows))
        params = AfterTurnParams(
            turn=work.turn,
            pre_prompt_count=start,
            outcomes=tuple(outcomes),
            token_budget=self.context.budget(),
            **conversation_fields(rows),
            **self._call_fields(work),
        )
        await self.guard.call("after_turn", engine.after_turn, params, type(None), self.seconds)

    async def _ingest_batch(
        self, engine: IngestsBatches, work: EngineWork, rows: Sequence[tuple[Row, TurnOutcome]]
    ) -> None:
        params = IngestBatchParams(**self._marked_fields(rows), **self._call_fields(work))
        method = engine.ingest_batch
        await self.guard.call("ingest_batch", method, params, IngestBatchResult, self.seconds)

    async def _ingest(self, work: EngineWork, rows: Sequence[tuple[Row, TurnOutcome]]) -> None:
        marked = self._marked_fields(rows)
        call_fields = self._call_fields(work)
        for index, item in enumerate(marked["items"]):
            params = IngestParams(
                item=item,
                provenance=marked["provenance"][index],
                internal_events=marked["internal_events"][index],
                outcome=marked["outcomes"][index],
                **call_fields,
            )
            await self.guard.call("ingest", self.engine.ingest, params, IngestResult, self.seconds)

    async def _outcomes_of(self, rows: Sequence[Row]) -> list[TurnOutcome]:
        numbers = {row.turn for row in rows if row.turn}
        for number in sorted(numbers - self._outcomes.keys()):
            turn = await self._store.turn(self._log.id, number)
            self._outcomes[number] = _OUTCOMES.get(turn.state, "accepted")
        return [self._outcomes.get(row.turn, "accepted") for row in rows]

    async def _reset(self, work: EngineWork) -> None:
        if not isinstance(self.engine, Resets):
            return
        assert work.hidden is not None
        params = ResetParams(
            reason=work.hidden, first=work.first, last=work.last, **self.context.fields()
        )
        method = self.engine.thread_reset
        await self.guard.call("thread_reset", method, params, type(None), self.seconds)

    def _call_fields(self, work: EngineWork) -> CallFields:
        return self.context.fields("context-engine.after-turn", fence=work.last)

    def _marked_fields(self, rows: Sequence[tuple[Row, TurnOutcome]]) -> _MarkedFields:
        named = named_rows(self._log.id, [row for row, _ in rows]).items()
        outcomes = tuple(outcome for _, outcome in rows)
        return _MarkedFields(**conversation_fields(named), outcomes=outcomes)
