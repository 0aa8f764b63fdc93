"""Values that answers and notifications share: threads, turns, failures, usage.

Owns their shapes. Invariant: a state is a plain string, because a newer server may
name one we do not know.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from ....core.wire import NULL
from .base import WireStruct

__all__ = [
    "AccountLimits",
    "CodexThreadInfo",
    "CodexThreadStatus",
    "CodexTurnError",
    "CodexTurnInfo",
    "LimitWindow",
    "PlanStepInfo",
    "ThreadTokenUsage",
    "TokenCounts",
    "UsageMetadata",
]


class CodexThreadStatus(WireStruct, frozen=True, kw_only=True):
    """What a thread is doing: `notLoaded`, `idle`, `systemError` or `active`."""

    type: str
    active_flags: tuple[str, ...] = ()


_TOO_LONG = '"context_length_exceeded"'


class CodexTurnError(WireStruct, frozen=True, kw_only=True):
    """Why a turn, or one try of it, failed."""

    message: str
    codex_error_info: Raw = NULL
    additional_details: str | None = None

    @property
    def kind(self) -> str:
        """The failure's name, such as `contextWindowExceeded`; empty where none is given."""
        match self._info:
            case str(name):
                return name
            case {**named} if len(named) == 1:
                return str(next(iter(named)))
        return ""

    @property
    def is_overflow(self) -> bool:
        """Whether the request was too long; where a provider refuses it, its own code says so."""
        return self.kind == "contextWindowExceeded" or _TOO_LONG in self.message

    @property
    def http_status(self) -> int | None:
        """The provider's status, where the failure has one."""
        match self._info:
            case {**named} if len(named) == 1:
                match next(iter(named.values())):
                    case {"httpStatusCode": int(status)}:
                        return status
        return None

    @property
    def _info(self) -> object:
        return msgspec.json.decode(self.codex_error_info)


class CodexTurnInfo(WireStruct, frozen=True, kw_only=True):
    """A turn; `status` is `inProgress`, `completed`, `interrupted` or `failed`."""

    id: str
    status: str
    error: CodexTurnError | None = None
    items: tuple[Raw, ...] = ()
    items_view: str = ""
    started_at: int | None = None
    completed_at: int | None = None
    duration_ms: int | None = None


class CodexThreadInfo(WireStruct, frozen=True, kw_only=True):
    """A thread as the app-server sees it; `path` is its rollout, none if ephemeral."""

    id: str
    session_id: str = ""
    path: str | None = None
    ephemeral: bool = False
    history_mode: str = ""
    forked_from_id: str | None = None
    model_provider: str = ""
    cli_version: str = ""
    cwd: str = ""
    status: CodexThreadStatus = CodexThreadStatus(type="notLoaded")
    turns: tuple[CodexTurnInfo, ...] = ()


class TokenCounts(WireStruct, frozen=True, kw_only=True):
    """A count of tokens; what the server does not say is unknown, not zero."""

    total_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    reasoning_output_tokens: int | None = None


class UsageMetadata(WireStruct, frozen=True, kw_only=True):
    """What the provider itself said about a response."""

    metadata: Raw = NULL


class ThreadTokenUsage(WireStruct, frozen=True, kw_only=True):
    """Tokens of the whole thread and of its newest response."""

    total: TokenCounts
    last: TokenCounts
    model_context_window: int | None = None


class LimitWindow(WireStruct, frozen=True, kw_only=True):
    """How much of one allowance is used."""

    used_percent: float
    window_duration_mins: int | None = None
    resets_at: int | None = None


class AccountLimits(WireStruct, frozen=True, kw_only=True):
    """The allowances of an account."""

    primary: LimitWindow | None = None
    secondary: LimitWindow | None = None
    limit_id: str | None = None
    limit_name: str | None = None
    plan_type: str | None = None


class PlanStepInfo(WireStruct, frozen=True, kw_only=True):
    """One step of a plan: `pending`, `inProgress` or `completed`."""

    step: str
    status: str
