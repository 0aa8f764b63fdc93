"""The engine seam: who decides what the model sees of a conversation.

Owns `ContextEngine` and the powers an engine may have besides. Invariants: an engine
is given conversation items and never fragments, it asks for a view and never edits the
log, and whatever it does the turn goes on. `treadle.testing.contracts` holds the suite.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from ..tools.contract import Tool
from .info import EngineInfo
from .values import (
    AfterTurnParams,
    AssembleParams,
    AssembleResult,
    BootstrapParams,
    BootstrapResult,
    CommitParams,
    CommitResult,
    CompactParams,
    CompactResult,
    IngestBatchParams,
    IngestBatchResult,
    IngestParams,
    IngestResult,
    InterceptParams,
    InterceptResult,
    MaintainParams,
    MaintainResult,
    ResetParams,
    SpawnParams,
    SubagentEndedParams,
)

__all__ = [
    "Bootstraps",
    "CommitsTurns",
    "ContextEngine",
    "Disposes",
    "FollowsSubagents",
    "FollowsTurns",
    "IngestsBatches",
    "InterceptsCompaction",
    "Maintains",
    "OffersTools",
    "PreparesSpawns",
    "Resets",
    "Rollback",
]

Rollback: TypeAlias = Callable[[], Awaitable[None]]
"""Takes back what was prepared for a child that never started."""


@runtime_checkable
class ContextEngine(Protocol):
    """Plans what the model sees. Every call is given one struct and answers with one."""

    @property
    def info(self) -> EngineInfo:
        """Who it is."""
        ...

    async def ingest(self, given: IngestParams, /) -> IngestResult:
        """Keep one item of an accepted turn; asked where nothing better is offered."""
        ...

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        """What the model should see next."""
        ...

    async def compact(self, given: CompactParams, /) -> CompactResult:
        """Make the view smaller. An engine with no way of its own delegates."""
        ...


@runtime_checkable
class Bootstraps(Protocol):
    """Takes in what happened before it was asked."""

    async def bootstrap(self, given: BootstrapParams, /) -> BootstrapResult:
        """Catch up with the thread. Asked once after it was opened, if it has a past."""
        ...


@runtime_checkable
class Maintains(Protocol):
    """Puts things in order after a turn, a bootstrap or a compaction."""

    async def maintain(self, given: MaintainParams, /) -> MaintainResult:
        """Tidy up; may ask for a re-based view."""
        ...


@runtime_checkable
class IngestsBatches(Protocol):
    """Keeps the items of a turn at once."""

    async def ingest_batch(self, given: IngestBatchParams, /) -> IngestBatchResult:
        """Keep them; may come again after a crash."""
        ...


@runtime_checkable
class FollowsTurns(Protocol):
    """Sees the whole conversation after each turn."""

    async def after_turn(self, given: AfterTurnParams, /) -> None:
        """A turn was accepted; may come again after a crash."""
        ...


@runtime_checkable
class CommitsTurns(Protocol):
    """Is advanced by each accepted turn exactly once."""

    async def commit_turn(self, given: CommitParams, /) -> CommitResult:
        """Take the turn in, with its key, atomically; say so when the key is known."""
        ...


@runtime_checkable
class InterceptsCompaction(Protocol):
    """Writes the summary where the runtime would."""

    async def intercept_compaction(self, given: InterceptParams, /) -> InterceptResult:
        """A summary of the items that are about to be folded, or none."""
        ...


@runtime_checkable
class PreparesSpawns(Protocol):
    """Wants to know of a child thread before it starts."""

    async def prepare_subagent_spawn(self, given: SpawnParams, /) -> Rollback | None:
        """Get ready; what is returned is called when the child does not start."""
        ...


@runtime_checkable
class FollowsSubagents(Protocol):
    """Wants to know when a child thread is over."""

    async def on_subagent_ended(self, given: SubagentEndedParams, /) -> None:
        """A child ended."""
        ...


@runtime_checkable
class Resets(Protocol):
    """Forgets what was rolled back or reset."""

    async def thread_reset(self, given: ResetParams, /) -> None:
        """Entries were hidden."""
        ...


@runtime_checkable
class OffersTools(Protocol):
    """Brings tools of its own, such as recall."""

    def tools(self) -> Sequence[Tool]:
        """The same tools for as long as the engine lives."""
        ...


@runtime_checkable
class Disposes(Protocol):
    """Holds something that must be given back."""

    async def dispose(self) -> None:
        """Let go of files and tasks. Harmless when called twice."""
        ...
