"""The engine contract: who decides what the model sees of a conversation.

Owns `ContextEngine`, the optional powers of an engine, and what an engine says of itself and
asks of its host. Invariants: an engine is given conversation items and never fragments, it
asks for a view and never edits the log, and whatever it does the turn goes on.
`treadle.testing.contracts` holds the suite.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, get_args, runtime_checkable

from msgspec import Struct

from ..tools.contract import Tool
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
    "CAPABILITIES",
    "HOST_PARAMS",
    "LOOP_CAPABILITIES",
    "Bootstraps",
    "Capability",
    "CommitsTurns",
    "ContextEngine",
    "Disposes",
    "EngineInfo",
    "FollowsSubagents",
    "FollowsTurns",
    "HostParam",
    "IngestsBatches",
    "InterceptsCompaction",
    "Maintains",
    "MaintenanceMode",
    "OffersTools",
    "Operation",
    "PreparesSpawns",
    "Requirement",
    "Resets",
    "Rollback",
    "TranscriptPromise",
    "unmet_requirement",
]

Capability: TypeAlias = Literal[
    "bootstrap",
    "assemble-before-prompt",
    "after-turn",
    "maintain",
    "compact",
    "runtime-llm-complete",
    "thread-bootstrap-projection",
]
"""What a harness may be able to do for an engine."""

CAPABILITIES: frozenset[Capability] = frozenset(get_args(Capability))

LOOP_CAPABILITIES: frozenset[Capability] = CAPABILITIES - {"thread-bootstrap-projection"}
"""What Treadle's own loop can do: it has no thread of its own that could be bootstrapped."""

Operation: TypeAlias = Literal["agent-run", "manual-compact", "subagent-spawn"]
"""What a harness serves an engine in."""

MaintenanceMode: TypeAlias = Literal["foreground", "background"]
HostParam: TypeAlias = Literal["prompt", "settings", "context", "cancelled"]

HOST_PARAMS: frozenset[HostParam] = frozenset(get_args(HostParam))
"""Parameters that the host adds beyond the conversation; an engine may decline them."""


class Requirement(Struct, frozen=True, kw_only=True):
    """What an operation needs of its host."""

    capabilities: tuple[Capability, ...]
    message: str = ""
    """What the user is told where they are missing."""


class TranscriptPromise(Struct, frozen=True, kw_only=True):
    """What an engine promises about the log."""

    current_turn_fence: Literal["before-current-turn-entry-v1"] | None = None
    """It reads only what lies before the current turn."""
    turn_advancement: Literal["atomic-idempotent-v1"] | None = None
    """Its `commit_turn` is keyed and atomic."""


class EngineInfo(Struct, frozen=True, kw_only=True):
    """Who an engine is."""

    id: str
    name: str
    version: str = ""
    owns_compaction: bool = False
    """It keeps the view small itself and is asked before every model call."""
    passive: bool = False
    """It keeps nothing and shows the view as it is. No turn is handed over to it, and a turn
    needs no more transactions than one without an engine; the runtime compacts for it."""
    turn_maintenance_mode: MaintenanceMode = "foreground"
    accepted_host_params: tuple[str, ...] | None = None
    """Host parameters it wants; None for all. `cancelled` always reaches `compact`."""
    host_requirements: Mapping[Operation, Requirement] = {}
    transcript: TranscriptPromise = TranscriptPromise()


def unmet_requirement(
    info: EngineInfo, operation: Operation, offered: Collection[Capability], host: str
) -> str | None:
    """Return why `host` cannot serve an operation of an engine; None when it can.

    An engine that a host cannot serve is refused with this sentence, never half served.
    """
    requirement = info.host_requirements.get(operation)
    missing = [] if requirement is None else sorted(set(requirement.capabilities) - set(offered))
    if requirement is None or not missing:
        return None
    problem = (
        f"engine {info.id!r} needs {', '.join(missing)} for {operation}, "
        f"which harness {host!r} does not have (it has {', '.join(sorted(offered)) or 'nothing'})"
    )
    return f"{problem}; {requirement.message}" if requirement.message else problem


Rollback: TypeAlias = Callable[[], Awaitable[None]]
"""Undoes what was prepared for a child thread that never started."""


@runtime_checkable
class ContextEngine(Protocol):
    """Decides what the model sees. Every call gets one struct and returns one."""

    @property
    def info(self) -> EngineInfo:
        """The description of the engine."""
        ...

    async def ingest(self, given: IngestParams, /) -> IngestResult:
        """Store one item of an accepted turn; used if the engine has no better method."""
        ...

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        """Return what the model should see next."""
        ...

    async def compact(self, given: CompactParams, /) -> CompactResult:
        """Make the view smaller. An engine without its own compaction calls `given.delegate`."""
        ...


@runtime_checkable
class Bootstraps(Protocol):
    """Takes in what happened before it was asked."""

    async def bootstrap(self, given: BootstrapParams, /) -> BootstrapResult:
        """Catch up with the thread. Called once after it was opened, if it has a past."""
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
        """Keep the items; may come again after a crash."""
        ...


@runtime_checkable
class FollowsTurns(Protocol):
    """Sees the whole conversation after each turn."""

    async def after_turn(self, given: AfterTurnParams, /) -> None:
        """Take in that a turn was accepted; may come again after a crash."""
        ...


@runtime_checkable
class CommitsTurns(Protocol):
    """Is advanced by each accepted turn exactly once."""

    async def commit_turn(self, given: CommitParams, /) -> CommitResult:
        """Take in the turn and its key in one transaction; answer `duplicate` for a known key."""
        ...


@runtime_checkable
class InterceptsCompaction(Protocol):
    """Writes the summary where the runtime would."""

    async def intercept_compaction(self, given: InterceptParams, /) -> InterceptResult:
        """Return a summary of the items that are about to be compacted, or none."""
        ...


@runtime_checkable
class PreparesSpawns(Protocol):
    """Wants to know of a child thread before it starts."""

    async def prepare_subagent_spawn(self, given: SpawnParams, /) -> Rollback | None:
        """Prepare for the child; return what is called if it does not start."""
        ...


@runtime_checkable
class FollowsSubagents(Protocol):
    """Wants to know when a child thread is over."""

    async def on_subagent_ended(self, given: SubagentEndedParams, /) -> None:
        """Take in that a child ended."""
        ...


@runtime_checkable
class Resets(Protocol):
    """Forgets what was rolled back, reset or deleted."""

    async def thread_reset(self, given: ResetParams, /) -> None:
        """Forget the entries; for a thread that is deleted, it may come again after a crash."""
        ...


@runtime_checkable
class OffersTools(Protocol):
    """Brings tools of its own, such as recall."""

    def tools(self) -> Sequence[Tool]:
        """Return the tools, the same ones for as long as the engine lives."""
        ...


@runtime_checkable
class Disposes(Protocol):
    """Holds something that must be closed."""

    async def dispose(self) -> None:
        """Close files and end tasks. Harmless when called twice."""
        ...
