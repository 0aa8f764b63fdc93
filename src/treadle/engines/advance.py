"""Advancing an engine: from a turn's end to the engine's knowledge of it, through the outbox.

Owns the way of a row ``engine:<id>``: admitted with the turn, accepted with its end, ready
once its range is fixed, gone once the engine has it. Invariants: rows are handed over in
order and stay until the engine has them; a turn that failed or was aborted advances
nothing, and its items travel, marked, with the next accepted turn; and a turn that was
seen to its end is handed over as it was seen, with one write.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import msgspec
from msgspec import Raw, Struct

from ..context.row import Row
from ..context.view import load_view
from ..core.entries import Epoch, Reason
from ..core.errors import EngineFailed, NotFound, StoreCorrupt, StoreTooNew
from ..core.wire import json_bytes
from ..log.thread_log import ThreadLog
from ..store.contract import OutboxDraft, OutboxRow, Store, Turn
from .contract import CommitsTurns, ContextEngine, FollowsTurns, IngestsBatches, Resets
from .conversation import ConversationFields, conversation_fields, named_rows
from .following import EngineFollower, EngineWork, decode_work, topic_of
from .frame import CallContext, CallFields
from .guard import EngineGuard
from .log import visible_rows
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

__all__ = ["AdvanceResult", "TurnAdvancer", "topic_of"]

AT_ONCE = 16
"""How many rows are handed over in one go."""

_SECONDS = 60.0
_FATES: dict[str, TurnOutcome] = {"failed": "failed", "aborted": "aborted"}


class _Done(Struct, frozen=True):
    """What a row came to."""

    operation: str
    turns: int = 0
    items: int = 0


class _Marked(ConversationFields):
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
    frame: CallContext
    follower: EngineFollower
    seconds: float = _SECONDS
    _handed: int = 0
    """The newest turn that was handed over."""
    _clean: int = -1
    """How many rows had been left when none waited any more."""
    _fates: dict[int, TurnOutcome] = {}
    """What became of the turns in view; all of them have ended."""

    async def drain(self, most: int = AT_ONCE) -> AdvanceResult:
        """Hand over what waits, oldest first, until something fails."""
        left = self.follower.left
        if left == self._clean:
            return AdvanceResult()
        drained = await self._drained(most)
        if not drained.pending and not drained.open:
            self._clean = left
        return drained

    async def _drained(self, most: int) -> AdvanceResult:
        done: list[_Done] = []
        blocked: list[str] = []
        failure: EngineFailed | None = None
        rows, is_open = await self._rows()
        while rows and failure is None and sum(each.turns for each in done) < most:
            try:
                done.append(await self._advance(rows[0]))
            except (StoreCorrupt, StoreTooNew) as error:
                blocked.append(str(error))
                await self._block(rows[0])
            except EngineFailed as error:
                await self._store.retry(rows[0].number, error.reason)
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
        match self.engine:
            case CommitsTurns():
                return "commit_turn"
            case FollowsTurns():
                return "after_turn"
            case IngestsBatches():
                return "ingest_batch"
            case _:
                return "ingest"

    @property
    def _log(self) -> ThreadLog:
        return self.frame.log

    @property
    def _store(self) -> Store:
        return self._log.store

    async def _rows(self) -> tuple[list[OutboxRow], bool]:
        """What waits, without rows put aside, and whether a turn is still open."""
        rows = await self._store.outbox(thread=self._log.id, topic=topic_of(self.guard.info.id))
        waiting = [row for row in rows if row.state != "blocked"]
        result = []
        for row in waiting:
            settled = row if row.state != "admitted" else await self._fate(row)
            if settled is not None:
                result.append(settled)
        return result, len(result) < len(waiting)

    async def _fate(self, row: OutboxRow) -> OutboxRow | None:
        """What became of a turn whose end nobody noted for the engine."""
        turn = await self._find(decode_work(row.body).turn)
        if turn is not None and turn.state == "completed":
            body = Raw(json_bytes(EngineWork(turn.id, turn.number)))
            return msgspec.structs.replace(row, state="accepted", body=body)
        ended = turn is None or turn.state in _FATES or turn.number < self._log.turn
        if ended:
            await self._log.queue(settle=(row.number,))
        return None

    async def _find(self, turn: str) -> Turn | None:
        recent = await self._store.turns(self._log.id, limit=4 * AT_ONCE)
        return next((one for one in reversed(recent) if one.id == turn), None)

    async def _advance(self, row: OutboxRow) -> _Done:
        """Bring one row to its end."""
        work = decode_work(row.body)
        if work.hidden is not None:
            await self._hide(work)
            await self._log.queue(settle=(row.number,))
            return _Done("thread_reset")
        fresh = self._fresh(work) if row.state == "accepted" else None
        if fresh is not None:
            work = msgspec.structs.replace(
                work, first=self.follower.begun.first, last=self._log.view.upto
            )
        elif row.state == "accepted":
            work = await self._ranged(work)
            await self._rows_of(work)
            await self._fix(row, work)
        try:
            done = await self._hand_over(work, fresh or await self._rows_of(work))
        except EngineFailed:
            if fresh is not None:
                await self._fix(row, work)
            raise
        await self._log.queue(settle=(row.number,))
        self._handed = work.number
        return done

    async def _fix(self, row: OutboxRow, work: EngineWork) -> None:
        """Keep the range of a turn: however often it is handed over, it is the same."""
        body = Raw(json_bytes(work))
        await self._log.queue(OutboxDraft(topic=row.topic, key=row.key, body=body, state="ready"))

    def _fresh(self, work: EngineWork) -> list[tuple[Row, TurnOutcome]] | None:
        """The conversation of the turn that has just ended, where the view shows all of it."""
        log, begun = self._log, self.follower.begun
        view, first = log.view, begun.first
        newest = work.number == begun.number == log.turn
        if not newest or self._handed != work.number - 1 or view.base >= first:
            return None
        if any(last >= first for _, last in view.gaps):
            return None
        own = takewhile(lambda row: (row.seq or 0) >= first, reversed(view.rows))
        kept = [row for row in own if row.turn == work.number and not row.contextual]
        return [(row, "accepted") for row in reversed(kept)]

    async def _block(self, row: OutboxRow) -> None:
        await self._log.queue(
            OutboxDraft(topic=row.topic, key=row.key, body=row.body, state="blocked")
        )

    async def _ranged(self, work: EngineWork) -> EngineWork:
        """The entries of a turn, and of those before it that advanced nothing."""
        store, thread = self._store, self._log.id
        turn = await store.turn(thread, work.number)
        carried: list[int] = []
        first = turn.first
        while (earlier := work.number - len(carried) - 1) > 0:
            before = await store.turn(thread, earlier)
            if before.state not in _FATES:
                break
            carried.insert(0, earlier)
            first = before.first
        if carried:
            first = await self._since_reset(first, turn.first)
        last = await self._last_before(work.number + 1)
        return msgspec.structs.replace(work, carried=tuple(carried), first=first, last=last)

    async def _since_reset(self, first: int, last: int) -> int:
        """Where carried entries begin: what the user has reset since does not come back."""
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
        """The conversation of a turn and of those it carries, as it was when the turn ended."""
        store, thread = self._store, self._log.id
        fates: dict[int, TurnOutcome] = {work.number: "accepted"}
        for number in work.carried:
            fates[number] = _FATES[(await store.turn(thread, number)).state]
        rows = await visible_rows(store, thread, work.first, work.last, upto=work.last)
        return [(row, fates[row.turn]) for row in rows if row.turn in fates and not row.contextual]

    async def _hand_over(self, work: EngineWork, said: Sequence[tuple[Row, TurnOutcome]]) -> _Done:
        """Tell the engine of a turn, in the best way it has."""
        rows = [pair for pair in said if not pair[0].volatile]
        match self.engine:
            case CommitsTurns() as engine:
                way = "commit_turn"
                await self._commit(engine, work, rows)
            case FollowsTurns() as engine:
                way = "after_turn"
                await self._follow(engine, work)
            case IngestsBatches() as engine:
                way = "ingest_batch"
                await self._batch(engine, work, rows)
            case _:
                way = "ingest"
                await self._ingest(work, rows)
        return _Done(way, 1, len(rows))

    async def _commit(
        self, engine: CommitsTurns, work: EngineWork, rows: Sequence[tuple[Row, TurnOutcome]]
    ) -> None:
        own = [row.seq for row, _ in rows if row.turn == work.number and row.seq is not None]
        given = CommitParams(
            key=f"{self._log.id}/{work.number}",
            turn=work.turn,
            number=work.number,
            first=min(own, default=work.first),
            last=work.last,
            **self._named(rows),
            **self._around(work),
        )
        await self.guard.call("commit_turn", engine.commit_turn, given, CommitResult, self.seconds)

    async def _follow(self, engine: FollowsTurns, work: EngineWork) -> None:
        """The view as it was when the turn ended, with where the turn began."""
        log = self._log
        view = log.view
        if view.upto != work.last:
            view = await load_view(log.store, log.id, log.registry, upto=work.last)
        rows = list(named_rows(log.id, view.rows).items())
        outcomes = await self._outcomes([row for _, row in rows])
        begun = next((i for i, (_, row) in enumerate(rows) if row.turn == work.number), len(rows))
        given = AfterTurnParams(
            turn=work.turn,
            pre_prompt_count=begun,
            outcomes=tuple(outcomes),
            token_budget=self.frame.budget(),
            **conversation_fields(rows),
            **self._around(work),
        )
        await self.guard.call("after_turn", engine.after_turn, given, type(None), self.seconds)

    async def _batch(
        self, engine: IngestsBatches, work: EngineWork, rows: Sequence[tuple[Row, TurnOutcome]]
    ) -> None:
        given = IngestBatchParams(**self._named(rows), **self._around(work))
        method = engine.ingest_batch
        await self.guard.call("ingest_batch", method, given, IngestBatchResult, self.seconds)

    async def _ingest(self, work: EngineWork, rows: Sequence[tuple[Row, TurnOutcome]]) -> None:
        named = self._named(rows)
        around = self._around(work)
        for index, item in enumerate(named["items"]):
            given = IngestParams(
                item=item,
                provenance=named["provenance"][index],
                internal_events=named["internal_events"][index],
                outcome=named["outcomes"][index],
                **around,
            )
            await self.guard.call("ingest", self.engine.ingest, given, IngestResult, self.seconds)

    async def _outcomes(self, rows: Sequence[Row]) -> list[TurnOutcome]:
        numbers = {row.turn for row in rows if row.turn}
        for number in sorted(numbers - self._fates.keys()):
            turn = await self._store.turn(self._log.id, number)
            self._fates[number] = _FATES.get(turn.state, "accepted")
        return [self._fates.get(row.turn, "accepted") for row in rows]

    async def _hide(self, work: EngineWork) -> None:
        if not isinstance(self.engine, Resets):
            return
        assert work.hidden is not None
        given = ResetParams(
            reason=work.hidden, first=work.first, last=work.last, **self.frame.fields()
        )
        method = self.engine.thread_reset
        await self.guard.call("thread_reset", method, given, type(None), self.seconds)

    def _around(self, work: EngineWork) -> CallFields:
        return self.frame.fields("context-engine.after-turn", fence=work.last)

    def _named(self, rows: Sequence[tuple[Row, TurnOutcome]]) -> _Marked:
        thread = self._log.id
        named = named_rows(thread, [row for row, _ in rows]).items()
        return _Marked(**conversation_fields(named), outcomes=tuple(outcome for _, outcome in rows))
