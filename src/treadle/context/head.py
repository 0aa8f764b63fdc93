"""Heads: everything in a request but its items, from facts about the model.

Owns the defaults a model brings and which of them a caller may change.
Invariant: the same profile, tools and choices give the same head.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Raw, Struct, UnsetType

from ..core.entries import Head
from ..core.errors import ConfigError
from ..core.former_name import SCHEMA_NAME
from ..core.specs import SPECS, ToolSpec
from ..core.wire import Json
from ..models.profile import ModelProfile

__all__ = ["Choices", "build_head", "is_same_model", "named_model"]

_SCHEMA_NAME = "treadle_output"
_APIS = {
    "anthropic": "messages",
    "azure": "responses",
    "codex": "responses",
    "openai": "responses",
    "scripted": "responses",
}
"""Which API a provider is asked through; all others speak ``chat``."""


class Choices(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Options of a caller that change a model's defaults."""

    effort: str | None = None
    summary: str | None = None
    verbosity: str | None = None
    output_schema: Json | UnsetType = UNSET
    service_tier: str | None = None


def build_head(
    profile: ModelProfile,
    *,
    instructions: str,
    tools: Sequence[ToolSpec] = (),
    choices: Choices | None = None,
    account: str = "",
    api: str = "",
) -> Head:
    """The head of requests to a model; `api` is what its connection speaks, where it is known."""
    asked = choices or Choices()
    provider = profile.provider or "openai"
    return Head(
        provider=provider,
        api=api or _APIS.get(provider, "chat"),
        account=account,
        model=profile.slug,
        instructions=instructions,
        tools=tuple(Raw(SPECS.encode(tool)) for tool in tools),
        parallel_tool_calls=profile.parallel_tool_calls,
        effort=profile.effort(asked.effort),
        summary=_summary(asked.summary or profile.reasoning_summary),
        verbosity=profile.verbosity_for(asked.verbosity),
        output_schema=asked.output_schema,
        service_tier=asked.service_tier if asked.service_tier in profile.service_tiers else None,
        include=("reasoning.encrypted_content",),
        images=profile.images,
        audio=profile.audio,
        schema_name=SCHEMA_NAME if asked.output_schema is UNSET else _SCHEMA_NAME,
        comp_hash=profile.comp_hash,
    )


def _summary(value: str | None) -> str | None:
    return None if value in (None, "", "none") else value


def is_same_model(one: Head, other: Head) -> bool:
    """Whether the same model answers under two heads, by the same API and account."""
    return (one.provider, one.api, one.account, one.model) == (
        other.provider,
        other.api,
        other.account,
        other.model,
    )


def named_model(head: Head | None, default: str | None = None) -> str:
    """The name of the model that a thread used last; `default` for one that used none."""
    if head is None:
        if default is not None:
            return default
        raise ConfigError("the thread has no model yet; name one, such as 'openai:gpt-5.5'")
    return f"{head.provider}:{head.model}"
