"""Small engines that between them have every power that a turn reaches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from treadle.engines.contract import EngineInfo, Rollback
from treadle.engines.linear import LinearEngine
from treadle.engines.loading import EngineContext
from treadle.engines.values import (
    AfterTurnParams,
    AssembleParams,
    AssembleResult,
    CompactParams,
    CompactResult,
    ContextItem,
    EntryRange,
    IngestBatchParams,
    IngestBatchResult,
    IngestParams,
    IngestResult,
    InterceptParams,
    InterceptResult,
    MaintainParams,
    MaintainResult,
    Rebase,
    SpawnParams,
    SubagentEndedParams,
    recall_item,
)
from treadle.prompt.instructions import summary_message


class MinimalEngine:
    """Keeps single items and shows what it is given."""

    info = EngineInfo(id="minimal", name="Minimal")

    def __init__(self) -> None:
        self.kept: set[str | None] = set()

    async def ingest(self, given: IngestParams, /) -> IngestResult:
        new = given.item.id not in self.kept
        self.kept.add(given.item.id)
        return IngestResult(new)

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        return AssembleResult(items=given.items)

    async def compact(self, given: CompactParams, /) -> CompactResult:
        if given.delegate is None:
            return CompactResult(ok=False, reason="it cannot compact anything itself")
        return await given.delegate()


class CountingEngine(MinimalEngine):
    """Tells how many items it keeps, so that one kept twice would show; tidies up meanwhile."""

    info = EngineInfo(id="counting", name="Counting", turn_maintenance_mode="background")

    def __init__(self, home: Path) -> None:
        self.home = home

    async def ingest(self, given: IngestParams, /) -> IngestResult:
        return IngestResult(bool(await asyncio.to_thread(self._keep, given.thread.id, given.item)))

    async def ingest_batch(self, given: IngestBatchParams, /) -> IngestBatchResult:
        kept = [item for item, persist in zip(given.items, given.persist, strict=True) if persist]
        return IngestBatchResult(await asyncio.to_thread(self._keep, given.thread.id, *kept))

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        now = given.pre_prompt_count if given.prompt else None
        count = len(await asyncio.to_thread(self._kept, given.thread.id))
        if not count or now is None or (given.token_budget or 500) < 500:
            return AssembleResult(items=given.items)
        memory = recall_item(f"{count} items are known.")
        return AssembleResult(items=(*given.items[:now], memory, *given.items[now:]))

    async def maintain(self, given: MaintainParams, /) -> MaintainResult:
        await asyncio.to_thread(self._keep, given.thread.id)
        return MaintainResult(reason="nothing to do")

    def _kept(self, thread: str) -> set[str | None]:
        file = self.home / thread
        return set(msgspec.json.decode(file.read_bytes())) if file.exists() else set()

    def _keep(self, thread: str, *items: ContextItem) -> int:
        before = self._kept(thread)
        after = before | {item.id for item in items}
        self.home.mkdir(parents=True, exist_ok=True)
        part = self.home / f".{thread}"
        part.write_bytes(msgspec.json.encode(sorted(map(str, after))))
        part.replace(self.home / thread)
        return len(after) - len(before)


class SummingEngine(MinimalEngine):
    """Owns compaction: compacts every turn but the newest into a sentence of its own."""

    info = EngineInfo(id="summing", name="Summing", owns_compaction=True)

    def __init__(self) -> None:
        super().__init__()
        self.children: set[str] = set()

    async def after_turn(self, given: AfterTurnParams, /) -> None:
        self.kept.update(item.id for item in given.items)

    async def maintain(self, given: MaintainParams, /) -> MaintainResult:
        if given.reason != "turn" or (compacted := compact(given.items)) is None:
            return MaintainResult(reason="nothing to compact")
        return MaintainResult(changed=True, rebase=Rebase(items=compacted))

    async def compact(self, given: CompactParams, /) -> CompactResult:
        compacted = compact(given.items)
        if compacted is None:
            return CompactResult(ok=False, reason="there is only one turn")
        return CompactResult(compacted=True, rebase=Rebase(items=compacted))

    async def intercept_compaction(self, given: InterceptParams, /) -> InterceptResult:
        return InterceptResult(summary=f"{len(given.items)} items were compacted.")

    async def prepare_subagent_spawn(self, given: SpawnParams, /) -> Rollback | None:
        self.children.add(given.child.id)

        async def rollback() -> None:
            self.children.discard(given.child.id)

        return rollback

    async def on_subagent_ended(self, given: SubagentEndedParams, /) -> None:
        self.children.discard(given.child)


def compact(items: Sequence[ContextItem]) -> tuple[ContextItem, ...] | None:
    old = [item for item in items if item.turn < items[-1].turn]
    numbers = [item.seq for item in old if item.seq is not None]
    if not numbers:
        return None
    covered = [item.covers.first for item in old if item.covers] + numbers
    summary = ContextItem.of(
        summary_message(f"There were {len(old)} items."),
        covers=EntryRange(min(covered), max(numbers)),
    )
    return (summary, *items[len(old) :])


def minimal(_: EngineContext) -> MinimalEngine:
    return MinimalEngine()


async def counting(context: EngineContext) -> CountingEngine:
    assert context.home is not None
    return CountingEngine(context.home)


def summing(_: EngineContext) -> SummingEngine:
    return SummingEngine()


class ToldOfTurns(LinearEngine):
    """The linear engine, told of every turn although it keeps nothing."""

    info = msgspec.structs.replace(LinearEngine.info, passive=False)


def linear(_: EngineContext) -> LinearEngine:
    return LinearEngine()


def told_of_turns(_: EngineContext) -> LinearEngine:
    return ToldOfTurns()
