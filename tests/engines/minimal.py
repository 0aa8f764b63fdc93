"""The smallest engine there can be: it keeps single items and shows what it is given."""

from __future__ import annotations

from weft.engines.info import EngineInfo
from weft.engines.offers import EngineContext
from weft.engines.values import (
    AssembleParams,
    AssembleResult,
    CompactParams,
    CompactResult,
    IngestParams,
    IngestResult,
)


class MinimalEngine:
    info = EngineInfo(id="minimal", name="Minimal")

    def __init__(self) -> None:
        self.kept: dict[str | None, bytes] = {}

    async def ingest(self, given: IngestParams, /) -> IngestResult:
        new = given.item.id not in self.kept
        self.kept[given.item.id] = given.item.body
        return IngestResult(new)

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        return AssembleResult(items=given.items)

    async def compact(self, given: CompactParams, /) -> CompactResult:
        if given.delegate is None:
            return CompactResult(ok=False, reason="it cannot fold anything itself")
        return await given.delegate()


def engine(_: EngineContext) -> MinimalEngine:
    return MinimalEngine()
