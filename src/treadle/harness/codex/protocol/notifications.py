"""Notifications of the app-server.

Owns their structs and their methods. Invariant: each names the thread that it belongs
to, or has `thread_id` None if it belongs to no thread.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec
from msgspec import Raw

from .types import (
    AccountLimits,
    CodexThreadInfo,
    CodexThreadStatus,
    CodexTurnError,
    CodexTurnInfo,
    PlanStepInfo,
    RequestId,
    ThreadTokenUsage,
    TokenCounts,
    UsageMetadata,
    WireStruct,
)

__all__ = [
    "NOTIFICATIONS",
    "UNWANTED",
    "ConfigWarningNotification",
    "ErrorNotification",
    "ItemCompletedNotification",
    "ItemStartedNotification",
    "MessageDeltaNotification",
    "ModelReroutedNotification",
    "Notification",
    "OutputDeltaNotification",
    "PlanNotification",
    "RateLimitsNotification",
    "RawItemNotification",
    "RawResponseNotification",
    "ReasoningDeltaNotification",
    "RequestResolvedNotification",
    "SummaryDeltaNotification",
    "SummaryPartNotification",
    "ThreadClosedNotification",
    "ThreadCompactedNotification",
    "ThreadStartedNotification",
    "ThreadStatusNotification",
    "TokenUsageNotification",
    "TurnCompletedNotification",
    "TurnDiffNotification",
    "TurnStartedNotification",
    "TypingNotification",
    "WarningNotification",
    "parse_notification",
]


class _General(WireStruct, frozen=True, kw_only=True):
    method: ClassVar[str]

    @property
    def thread_id(self) -> str | None:
        """Return None: the notification belongs to no thread."""
        return None


class _OfThread(WireStruct, frozen=True, kw_only=True):
    method: ClassVar[str]

    thread_id: str


class _OfTurn(_OfThread, frozen=True, kw_only=True):
    turn_id: str


class _OfItem(_OfTurn, frozen=True, kw_only=True):
    item_id: str


class ThreadStartedNotification(WireStruct, frozen=True, kw_only=True):
    """A thread was started; every client receives this."""

    method: ClassVar[str] = "thread/started"

    thread: CodexThreadInfo

    @property
    def thread_id(self) -> str:
        """Return the id of the thread."""
        return self.thread.id


class ThreadStatusNotification(_OfThread, frozen=True, kw_only=True):
    """A thread became active or idle, or waits for an answer."""

    method: ClassVar[str] = "thread/status/changed"

    status: CodexThreadStatus


class ThreadClosedNotification(_OfThread, frozen=True, kw_only=True):
    """A thread was unloaded."""

    method: ClassVar[str] = "thread/closed"


class ThreadCompactedNotification(_OfTurn, frozen=True, kw_only=True):
    """The app-server compacted natively; only older versions send this."""

    method: ClassVar[str] = "thread/compacted"


class TokenUsageNotification(_OfTurn, frozen=True, kw_only=True):
    """The token usage after a model response."""

    method: ClassVar[str] = "thread/tokenUsage/updated"

    token_usage: ThreadTokenUsage


class TurnStartedNotification(_OfThread, frozen=True, kw_only=True):
    """A turn started."""

    method: ClassVar[str] = "turn/started"

    turn: CodexTurnInfo


class TurnCompletedNotification(_OfThread, frozen=True, kw_only=True):
    """A turn ended: completed, interrupted or failed."""

    method: ClassVar[str] = "turn/completed"

    turn: CodexTurnInfo


class PlanNotification(_OfTurn, frozen=True, kw_only=True):
    """The model changed its plan."""

    method: ClassVar[str] = "turn/plan/updated"

    plan: tuple[PlanStepInfo, ...]
    explanation: str | None = None


class TurnDiffNotification(_OfTurn, frozen=True, kw_only=True):
    """All file changes of the turn so far, as one unified diff."""

    method: ClassVar[str] = "turn/diff/updated"

    diff: str


class ItemStartedNotification(_OfTurn, frozen=True, kw_only=True):
    """An item started; `parse_item` decodes it."""

    method: ClassVar[str] = "item/started"

    item: Raw
    started_at_ms: int | None = None


class ItemCompletedNotification(_OfTurn, frozen=True, kw_only=True):
    """An item is complete; `parse_item` decodes it."""

    method: ClassVar[str] = "item/completed"

    item: Raw
    completed_at_ms: int | None = None


class MessageDeltaNotification(_OfItem, frozen=True, kw_only=True):
    """The next piece of a message of the model."""

    method: ClassVar[str] = "item/agentMessage/delta"

    delta: str


class SummaryDeltaNotification(_OfItem, frozen=True, kw_only=True):
    """The next piece of a reasoning summary."""

    method: ClassVar[str] = "item/reasoning/summaryTextDelta"

    delta: str
    summary_index: int


class SummaryPartNotification(_OfItem, frozen=True, kw_only=True):
    """Another part of a reasoning summary starts."""

    method: ClassVar[str] = "item/reasoning/summaryPartAdded"

    summary_index: int


class ReasoningDeltaNotification(_OfItem, frozen=True, kw_only=True):
    """The next piece of the reasoning text."""

    method: ClassVar[str] = "item/reasoning/textDelta"

    delta: str
    content_index: int


class OutputDeltaNotification(_OfItem, frozen=True, kw_only=True):
    """The next piece of the output of a command."""

    method: ClassVar[str] = "item/commandExecution/outputDelta"

    delta: str


class TypingNotification(_OfItem, frozen=True, kw_only=True):
    """Codex has typed `stdin` into a running command, or only looked at its output."""

    method: ClassVar[str] = "item/commandExecution/terminalInteraction"

    process_id: str = ""
    stdin: str = ""


class ModelReroutedNotification(_OfTurn, frozen=True, kw_only=True):
    """The server answers with another model than the one that was asked."""

    method: ClassVar[str] = "model/rerouted"

    to_model: str


class RawItemNotification(_OfTurn, frozen=True, kw_only=True):
    """A raw item of the history, as the model reads or wrote it."""

    method: ClassVar[str] = "rawResponseItem/completed"

    item: Raw


class RawResponseNotification(_OfTurn, frozen=True, kw_only=True):
    """A model response has ended."""

    method: ClassVar[str] = "rawResponse/completed"

    response_id: str
    usage: TokenCounts | None = None
    usage_metadata: UsageMetadata | None = None
    """The usage in the provider's own format, where missing numbers are visible."""


class ErrorNotification(_OfTurn, frozen=True, kw_only=True):
    """An attempt failed; `will_retry` says whether Codex tries again."""

    method: ClassVar[str] = "error"

    error: CodexTurnError
    will_retry: bool = False


class RequestResolvedNotification(_OfThread, frozen=True, kw_only=True):
    """A server request needs no reply any more."""

    method: ClassVar[str] = "serverRequest/resolved"

    request_id: RequestId


class WarningNotification(WireStruct, frozen=True, kw_only=True):
    """A warning for the user, about a thread or about none."""

    method: ClassVar[str] = "warning"

    message: str
    thread_id: str | None = None


class ConfigWarningNotification(_General, frozen=True, kw_only=True):
    """A setting that the server did not understand."""

    method: ClassVar[str] = "configWarning"

    summary: str
    details: str | None = None
    path: str | None = None


class RateLimitsNotification(_General, frozen=True, kw_only=True):
    """The rate limits of the account, as of the newest response."""

    method: ClassVar[str] = "account/rateLimits/updated"

    rate_limits: AccountLimits


Notification: TypeAlias = (
    MessageDeltaNotification
    | OutputDeltaNotification
    | ConfigWarningNotification
    | ErrorNotification
    | ItemCompletedNotification
    | ItemStartedNotification
    | ModelReroutedNotification
    | PlanNotification
    | RateLimitsNotification
    | RawItemNotification
    | RawResponseNotification
    | SummaryPartNotification
    | SummaryDeltaNotification
    | ReasoningDeltaNotification
    | RequestResolvedNotification
    | ThreadClosedNotification
    | ThreadCompactedNotification
    | ThreadStartedNotification
    | ThreadStatusNotification
    | TokenUsageNotification
    | TurnCompletedNotification
    | TurnDiffNotification
    | TurnStartedNotification
    | TypingNotification
    | WarningNotification
)

NOTIFICATIONS: dict[str, type[Notification]] = {kind.method: kind for kind in Notification.__args__}
"""The notifications that Treadle reads, by method."""

UNWANTED: tuple[str, ...] = (
    "account/updated",
    "app/list/updated",
    "deprecationNotice",
    "hook/completed",
    "hook/started",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/mcpToolCall/progress",
    "item/plan/delta",
    "mcpServer/startupStatus/updated",
    "model/safetyBuffering/updated",
    "remoteControl/status/changed",
    "skills/changed",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/prediction/updated",
    "thread/queue/changed",
    "thread/readState/changed",
    "thread/settings/updated",
    "turn/moderationMetadata",
)
"""The notifications that Treadle does not want."""

_decoders = {method: msgspec.json.Decoder(kind) for method, kind in NOTIFICATIONS.items()}


def parse_notification(method: str, params: bytes | Raw) -> Notification | None:
    """Decode a notification; return None if Treadle does not know the method.

    Raises `msgspec.ValidationError` if the parameters have another shape.
    """
    decoder = _decoders.get(method)
    return None if decoder is None else decoder.decode(params)
