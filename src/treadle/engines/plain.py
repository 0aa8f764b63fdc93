"""The plain engine: the view stays as it is, and the runtime folds it.

Owns `LinearEngine`. Invariant: it keeps nothing, so it has nothing to lose, and a
request made with it has the bytes that one made without any engine has.
"""

from __future__ import annotations

from .info import EngineInfo
from .values import (
    AssembleParams,
    AssembleResult,
    CompactParams,
    CompactResult,
    IngestParams,
    IngestResult,
)

__all__ = ["LinearEngine"]


class LinearEngine:
    """What a thread has where nobody chose an engine."""

    info = EngineInfo(id="linear", name="Linear", version="1")

    async def ingest(self, given: IngestParams, /) -> IngestResult:
        """Keep nothing: the log has it."""
        del given
        return IngestResult(ingested=False)

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        """Show what would be shown anyway."""
        return AssembleResult(items=given.items)

    async def compact(self, given: CompactParams, /) -> CompactResult:
        """Let the runtime fold the view."""
        if given.delegate is None:
            return CompactResult(ok=False, reason="the runtime offers no compaction")
        return await given.delegate()
