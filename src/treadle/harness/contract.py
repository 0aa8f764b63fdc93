"""The harness seam: what runs the steps of an admitted turn.

Owns the `Harness` Protocol, the powers that some harnesses have beyond it, and what they
are given. Invariant: a harness executes; what is allowed, offered or delivered was
decided before it was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct, field

from ..core.usage import TokenUsage
from ..engines.contract import Capability
from ..engines.session import EngineSession
from ..hooks.hooks import Hooks
from ..log.thread_log import ThreadLog
from ..log.turn_input import TurnInput
from ..models.contract import Model
from ..models.retry import Backoff
from ..policy.identity import Identifies, Identity, nobody
from ..policy.limits import LimitReached
from ..policy.outcome import Facts
from ..policy.traits import Traits
from ..policy.turn_plan import TurnPlan
from ..store.contract import Turn
from ..tools.contract import Tool, ToolCall, ToolContext
from ..tools.dispatch import ToolsByName
from .budget import Budget
from .events import Event, TurnStatus
from .summary_model import FindSummaryModel, no_summary_model

__all__ = [
    "CALL",
    "STREAM_BACKOFF",
    "Closes",
    "Compacts",
    "Completes",
    "Forgets",
    "Harness",
    "Identifies",
    "Identity",
    "NativeCompaction",
    "Outcome",
    "Preview",
    "Previews",
    "Resumes",
    "Traits",
    "TurnRun",
    "nobody",
]


CALL: ContextVar[ToolCall] = ContextVar("call")
"""The call that the present task runs."""

STREAM_BACKOFF = Backoff(retries=5)
"""How an answer that broke off is asked for again, unless a harness knows better."""


class Outcome(Struct, frozen=True, kw_only=True):
    """How a turn ended."""

    status: TurnStatus
    text: str = ""
    """The model's last message."""
    refused: bool = False
    """Whether that message is a refusal to answer."""
    usage: TokenUsage = TokenUsage()
    error: str | None = None
    facts: Facts = Facts()
    """What the attempt did, for the plan to judge."""
    ended: bool = True
    """Whether the turn's end is in the log; else whoever asked decides what follows."""
    limit: LimitReached | None = None
    """The limit that ended the turn."""


class TurnRun(Struct, kw_only=True):
    """One admitted turn, and all that running it needs."""

    turn: Turn | None = None
    """None while no turn is under way, as for a compaction by hand."""
    log: ThreadLog
    engine: EngineSession
    """The context engine of the thread."""
    model: Model
    tools: Sequence[Tool]
    tools_by_name: ToolsByName = field(default_factory=dict)
    """The same tools, by the names that a model calls them by."""
    context: Callable[[int], ToolContext]
    """What the calls of a step get to work with."""
    emit: Callable[[Event], None]
    hooks: Hooks = field(default_factory=Hooks)
    backoff: Backoff = STREAM_BACKOFF
    retries: int | None = None
    """How often a step may be asked for again; None leaves it to the harness."""
    waits_for_limits: bool = True
    """Whether a limit is waited for; not where another candidate could answer at once."""
    plan: TurnPlan | None = None
    """What was decided for this attempt; log, tools and `accepts` already go by it."""
    accepts: Callable[[Facts], bool] = lambda _: True
    """Whether an attempt with these facts may end the turn; policy, prepared."""
    find_summary_model: FindSummaryModel = no_summary_model
    """Who writes summaries in place of the thread's model, by what they are for; planned."""
    identity: Identifies = nobody
    """Whose credential the run is paid with; policy, prepared."""
    spent: TokenUsage = field(default_factory=TokenUsage)
    """What earlier attempts at the same turn have cost."""
    budget: Budget = field(default_factory=Budget)
    """What the turn may use, and has used. Each answer is charged to it; a turn that has
    reached a limit sends no further request, and one whose time is over is broken off."""
    leaving: Callable[[], bool] = lambda: False
    """Whether the turn is to be left open, for another process to go on with: at the next step
    by raising `TurnLeft`, and where it is cancelled without being ended in the log."""


class Harness(Protocol):
    """Runs the steps of a turn until the model has nothing more to do.

    Every item is in the log before anything acts on it; if the harness itself acts, the item
    is logged as soon as it is known. When the task is cancelled, every open call gets its
    result before the cancellation continues.
    """

    name: str

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Its capabilities for context engines."""
        ...

    @property
    def traits(self) -> Traits:
        """What it provides itself."""
        ...

    async def run(self, run: TurnRun) -> Outcome:
        """Run the turn. Ends it in the log, with its last items, where the run `accepts` it.

        A failure, and an end that is not accepted, are told and leave the turn open.
        """
        ...


class Preview(Struct, frozen=True):
    """What the model will be told with an input, as hooks see it."""

    prompt: str
    instructions: str = ""
    """Empty: the developer instructions of the thread, as they are on every harness."""


class NativeCompaction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a harness's own compaction."""

    backend: str
    status: Literal["completed", "failed", "skipped"]
    reason: str = ""
    tokens_before: int | None = None
    tokens_after: int | None = None


@runtime_checkable
class Resumes(Protocol):
    """A harness that keeps a thread of its own, which may know more than the log."""

    async def resume(self, run: TurnRun) -> None:
        """Bring into the log what a process that ended has left elsewhere."""
        ...


@runtime_checkable
class Previews(Protocol):
    """A harness that puts a prompt into other words."""

    def preview(self, run: TurnRun, opening: TurnInput) -> Preview:
        """What the model will be told. Hooks are asked about this, not about the bare input."""
        ...


@runtime_checkable
class Compacts(Protocol):
    """A harness that can compact its own thread."""

    async def compact(self, run: TurnRun) -> NativeCompaction:
        """Compact it, as well as that can be done; a failure is told, never raised."""
        ...


@runtime_checkable
class Completes(Protocol):
    """A harness through which its model can be asked outside the conversation."""

    def model(self, name: str, identity: Identifies = nobody) -> Model:
        """What answers for the model called `name`, and is paid by `identity`."""
        ...


@runtime_checkable
class Forgets(Protocol):
    """A harness that keeps something of a thread between turns."""

    async def forget(self, log: ThreadLog) -> None:
        """Let go of it for good: the thread was reset."""
        ...


@runtime_checkable
class Closes(Protocol):
    """A harness that holds processes or connections."""

    async def leave(self, thread: str) -> None:
        """A thread is being closed; let go of what is held for it."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...
