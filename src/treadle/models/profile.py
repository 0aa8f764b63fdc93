"""Model profiles: what the runtime must know about a model before its first request.

Owns the facts and the few numbers derived from them. Invariant: a profile is
complete; an unknown model gets the fallback and `known=False`.
"""

# No postponed annotations: decoders read them, and reading them from text is slow.

from typing import Annotated, Any, Literal, Self, TypeAlias

import msgspec
from msgspec import Meta, Struct

from ..core.text import BYTES_PER_TOKEN, TruncationPolicy

__all__ = ["SMALL_WINDOW", "ApplyPatch", "ModelProfile", "Shell", "Summary", "Verbosity"]

SMALL_WINDOW = 32_768
"""The widest window, in tokens, whose model gets the short instructions and tools by itself."""

Shell: TypeAlias = Literal["unified_exec", "shell_command", "shell", "local"]
ApplyPatch: TypeAlias = Literal["freeform", "function", "none"]
Summary: TypeAlias = Literal["none", "auto", "concise", "detailed"]
Verbosity: TypeAlias = Literal["low", "medium", "high", ""]
TextCallForm: TypeAlias = Literal["tags", "json", "mistral", "python_tag"]
WebSearch: TypeAlias = Literal["none", "text", "text_and_image"]
Positive: TypeAlias = Annotated[int, Meta(gt=0)]
Percent: TypeAlias = Annotated[int, Meta(gt=0, le=100)]


class ModelProfile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts about one model. An empty string means "none"."""

    slug: str
    """The model's name in the request, without the provider."""
    provider: str = "openai"
    entry: str = ""
    """The catalog entry that applies; empty for an unknown model."""
    known: bool = False
    context_window: Positive | None = None
    max_context_window: Positive | None = None
    """The widest window that the provider sells; a user may raise the window to it."""
    auto_compact_token_limit: Positive | None = None
    effective_window_percent: Percent = 95
    truncation: TruncationPolicy = TruncationPolicy("bytes", 10_000)
    """How much of a tool's output the log keeps."""
    shell: Shell = "unified_exec"
    apply_patch: ApplyPatch = "none"
    parallel_tool_calls: bool = True
    web_search: WebSearch = "none"
    deferred_tools: bool = False
    """Whether the model takes tools that a search finds in the form of its provider."""
    efforts: tuple[str, ...] = ()
    default_effort: str = ""
    reasoning_summary: Summary = "auto"
    verbosity: bool = False
    """Whether the model accepts a verbosity."""
    default_verbosity: Verbosity = ""
    images: bool = False
    original_images: bool = False
    """Whether images may be sent in their own resolution."""
    audio: bool = False
    service_tiers: tuple[str, ...] = ()
    comp_hash: str = ""
    """Models whose hashes differ cannot read each other's compactions."""
    instructions: str = "auto"
    """The family of base instructions and tools; ``auto``: the window decides."""

    text_calls: tuple[TextCallForm, ...] = ()
    """The forms of calls that are read from its text, where it writes them down."""

    @property
    def family(self) -> str:
        """The family of base instructions and tools: ``small`` for a small window."""
        if self.instructions != "auto":
            return self.instructions
        small = self.context_window is not None and self.context_window <= SMALL_WINDOW
        return "small" if small else "general"

    @property
    def auto_compact_limit(self) -> int | None:
        """Tokens at which a thread is compacted: the limit, at most nine tenths of the window."""
        limits = [self.auto_compact_token_limit]
        limits += [self.context_window * 9 // 10 if self.context_window else None]
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def effective_window(self) -> int | None:
        """Tokens that can be used in practice."""
        if self.context_window is None:
            return None
        return self.context_window * self.effective_window_percent // 100

    def is_filled_by(self, tokens: int) -> bool:
        """Return whether a view of so many tokens has reached one of the limits."""
        limits = (self.auto_compact_limit, self.effective_window)
        return any(limit is not None and tokens >= limit for limit in limits)

    def truncation_policy(self, tool_output_token_limit: int | None = None) -> TruncationPolicy:
        """Return the policy for tool outputs, with the user's own limit if there is one."""
        if tool_output_token_limit is None:
            return self.truncation
        per_token = BYTES_PER_TOKEN if self.truncation.mode == "bytes" else 1
        return TruncationPolicy(self.truncation.mode, tool_output_token_limit * per_token)

    def effort(self, wanted: str | None = None) -> str | None:
        """Return the reasoning effort to send: the wanted one or the model's default."""
        effort = wanted or self.default_effort
        return {"": None, "ultra": "max"}.get(effort, effort)

    def verbosity_for(self, wanted: str | None = None) -> str | None:
        """Return the verbosity to send; None for a model that takes none."""
        return (wanted or self.default_verbosity or None) if self.verbosity else None

    def override(self, **fields: Any) -> Self:
        """Return the profile with some facts replaced."""
        return msgspec.structs.replace(self, **fields)
