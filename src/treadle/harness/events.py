"""Events: what a host hears while a turn runs.

Owns the vocabulary that hosts, observers and the command line share, whatever runs
the turn. Invariant: an event tells of something that is already durable, unless it is a
delta, which is told again whole by the item that completes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ..core.money import Bill
from ..core.usage import RateLimitSnapshot, TokenUsage
from ..core.wire import Json
from ..engines.reports import EngineReported
from ..policy.fallback import Attempt, Tried
from ..policy.limits import LimitReached
from ..sandbox.approvals import Ask
from ..tools.contract import Media, SentMessage, UserQuestion

__all__ = [
    "AgentReported",
    "ApprovalRequested",
    "ApprovalWithdrawn",
    "AttemptFailed",
    "CompactionFinished",
    "CompactionStarted",
    "EngineReported",
    "Event",
    "EvidenceFound",
    "HarnessReported",
    "ItemCompleted",
    "LimitReached",
    "NoticeRaised",
    "PlanUpdated",
    "QuestionsAsked",
    "RateLimitsReported",
    "ReasoningDelta",
    "Retrying",
    "StepStarted",
    "TextDelta",
    "ToolFinished",
    "ToolProgress",
    "ToolStarted",
    "TurnCompleted",
    "TurnStarted",
    "TurnStatus",
    "UsageReported",
]

TurnStatus: TypeAlias = Literal["completed", "failed", "interrupted"]


class TurnStarted(Struct, frozen=True, kw_only=True, tag="turn.started"):
    """A turn was admitted and starts."""

    thread: str
    turn: str
    number: int
    model: str
    harness: str
    sandbox: str
    """Which sandbox commands run in; ``none`` is said plainly."""
    harness_reason: str = ""
    """Why that harness was chosen."""
    profile: str = ""
    """Who Treadle is to the model's provider."""
    transport: str = ""
    """How requests travel."""


class StepStarted(Struct, frozen=True, kw_only=True, tag="step.started"):
    """A request is about to be sent."""

    step: int
    size: int
    shared: int
    reason: str | None = None


class TextDelta(Struct, frozen=True, tag="text.delta"):
    """The model has written more text."""

    text: str


class ReasoningDelta(Struct, frozen=True, tag="reasoning.delta"):
    """The model has reasoned further."""

    text: str


class ItemCompleted(Struct, frozen=True, kw_only=True, tag="item.completed"):
    """An item is in the log."""

    seq: int
    item: Json


class ToolStarted(Struct, frozen=True, kw_only=True, tag="tool.started"):
    """A call starts to run."""

    call_id: str
    name: str
    arguments: str


class ToolProgress(Struct, frozen=True, kw_only=True, tag="tool.progress"):
    """Progress of a running call."""

    call_id: str
    text: str


class ToolInput(Struct, frozen=True, kw_only=True, tag="tool.input"):
    """The next piece of a call that the model is still writing, such as a patch."""

    call_id: str
    name: str
    delta: str


class ToolFinished(Struct, frozen=True, kw_only=True, tag="tool.finished"):
    """A call has its result, and the result is durable; Codex's own calls are logged after it."""

    call_id: str
    name: str
    success: bool
    seconds: float
    output: str


class EvidenceFound(Struct, frozen=True, kw_only=True, tag="tool.evidence", omit_defaults=True):
    """A call has sent something to others, or created media for the reply."""

    call_id: str
    name: str
    sent: tuple[SentMessage, ...] = ()
    media: tuple[Media, ...] = ()


class ApprovalRequested(Struct, frozen=True, kw_only=True, tag="approval.requested"):
    """A call waits for the host's decision; answer it by `id`."""

    id: str
    call: Ask
    call_id: str = ""
    """The call of the model that waits."""


class QuestionsAsked(Struct, frozen=True, kw_only=True, tag="questions.asked"):
    """The model has questions for the user; answer them by `id`."""

    id: str
    questions: tuple[UserQuestion, ...]


class ApprovalWithdrawn(Struct, frozen=True, kw_only=True, tag="approval.withdrawn"):
    """The answer is no longer needed."""

    id: str


class UsageReported(Struct, frozen=True, kw_only=True, tag="usage.reported"):
    """The token counts of one request, and how full the window is."""

    usage: TokenUsage
    occupied: int
    window: int | None = None
    model: str = ""
    """Who answered: ``provider:model``."""


class PlanUpdated(Struct, frozen=True, kw_only=True, tag="plan.updated"):
    """The model changed its plan: each step with its state."""

    steps: tuple[tuple[str, str], ...]
    explanation: str | None = None


class HarnessReported(Struct, frozen=True, kw_only=True, tag="harness.reported"):
    """An internal action of a harness: names and counts, no text of the conversation."""

    harness: str
    what: str
    reason: str = ""
    details: Mapping[str, str | int] = {}


class RateLimitsReported(Struct, frozen=True, tag="limits.reported"):
    """The rate limits that the provider reported."""

    limits: RateLimitSnapshot


class ModelReported(Struct, frozen=True, kw_only=True, tag="model.reported"):
    """The server says that another model answers than the one that was asked."""

    model: str


class Retrying(Struct, frozen=True, kw_only=True, tag="retrying"):
    """A request failed and is tried again."""

    attempt: int
    most: int
    delay: float
    reason: str


class AttemptFailed(Struct, frozen=True, kw_only=True, tag="attempt.failed"):
    """A candidate failed, and the next one is tried."""

    tried: Tried
    next: Attempt
    harness: str = ""
    """The harness that runs the next attempt."""
    harness_reason: str = ""
    """Why that harness was chosen."""
    transport: str = ""
    """How the requests of the next attempt travel."""


class CompactionStarted(Struct, frozen=True, kw_only=True, tag="compaction.started"):
    """A compaction has started."""

    by: str
    tokens: int


class CompactionFinished(Struct, frozen=True, kw_only=True, tag="compaction.finished"):
    """A compaction has ended, with success or an error."""

    by: str
    tokens_before: int
    tokens_after: int
    error: str | None = None
    details: Mapping[str, Any] = {}
    """Whose compaction it was, where the harness compacted by itself."""


class NoticeRaised(Struct, frozen=True, kw_only=True, tag="notice"):
    """Something the user should know."""

    level: Literal["info", "warning", "error"]
    text: str


class TurnCompleted(Struct, frozen=True, kw_only=True, tag="turn.completed"):
    """The turn is over and its end is durable."""

    turn: str
    status: TurnStatus
    text: str = ""
    """The model's last message."""
    refused: bool = False
    """Whether that message is a refusal to answer."""
    usage: TokenUsage = TokenUsage()
    cost: Bill = Bill()
    """What its answers and summaries cost that this process saw, without those of agents."""
    error: str | None = None
    """Why it failed; of a completed one, why its end is not durable (a full disk, on Codex)."""
    tried: tuple[Tried, ...] = ()
    """The attempts that came to nothing, in order; with the last one where all did."""
    limit: LimitReached | None = None
    """The limit that ended it; the status is then ``interrupted``, and its work is kept."""


class AgentReported(Struct, frozen=True, kw_only=True, tag="agent.reported"):
    """An event of an agent that this thread started; answer its questions here too."""

    thread: str
    """The agent's own."""
    nickname: str
    event: Event


Event: TypeAlias = (
    TurnStarted
    | StepStarted
    | TextDelta
    | ReasoningDelta
    | ItemCompleted
    | ToolStarted
    | ToolProgress
    | ToolInput
    | ToolFinished
    | EvidenceFound
    | ApprovalRequested
    | QuestionsAsked
    | ApprovalWithdrawn
    | UsageReported
    | PlanUpdated
    | HarnessReported
    | RateLimitsReported
    | ModelReported
    | Retrying
    | AttemptFailed
    | CompactionStarted
    | CompactionFinished
    | EngineReported
    | NoticeRaised
    | LimitReached
    | TurnCompleted
    | AgentReported
)
"""Anything a host may hear."""
