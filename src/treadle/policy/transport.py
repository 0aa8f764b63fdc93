"""Transport parameters: what a request says beside its items, tools and instructions.

Owns the defaults of provider families and the spellings of each parameter; each format
knows which of them its API has a place for. Invariant: both harnesses are given what follows
from the same wishes, and without wishes a head of ours says what its model brings, byte for
byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..context.head import Choices
from ..core.entries import Head
from ..core.errors import ConfigError
from ..models.contract import Capabilities
from ..models.profile import ModelProfile
from .effort import turn_effort, wire_effort
from .param_values import answer_params, cache_params, check, service_tier
from .target import OPENAI_FAMILY, Target

__all__ = [
    "Params",
    "add_params",
    "asked_of",
    "canonical",
    "check_schema",
    "extra_params",
    "limit",
    "resolve",
    "unheld",
]

_SPELLINGS = {
    "max_tokens": "max_output_tokens",
    "maxOutputTokens": "max_output_tokens",
    "promptCacheRetention": "prompt_cache_retention",
    "parallelToolCalls": "parallel_tool_calls",
    "textVerbosity": "text_verbosity",
    "verbosity": "text_verbosity",
    "cached_content": "cachedContent",
    "reasoningEffort": "reasoning_effort",
    "reasoningSummary": "reasoning_summary",
    "serviceTier": "service_tier",
}
_FIELD: dict[str, str] = {
    "reasoning_effort": "effort",
    "reasoning_summary": "summary",
    "text_verbosity": "verbosity",
    "service_tier": "service_tier",
    "parallel_tool_calls": "parallel_tool_calls",
}
"""The parameters by their names in settings."""
_VERBOSITIES = ("low", "medium", "high")


class Params(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parameters of a turn, as its harness is to send them."""

    parallel_tool_calls: bool = True
    effort: str | None = None
    summary: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    cache_retention: str | None = None
    cache_ttl: str | None = None
    cache_breakpoints: bool = False


def canonical(given: Mapping[str, object]) -> dict[str, object]:
    """`given` with every name in its one spelling; the one spelling wins over others."""
    renamed = {_SPELLINGS[name]: value for name, value in given.items() if name in _SPELLINGS}
    return renamed | {name: value for name, value in given.items() if name not in _SPELLINGS}


def asked_of(
    params: Mapping[str, Mapping[str, object]], provider: str, model: str
) -> dict[str, object]:
    """What settings ask of a model: its provider's parameters under its own.

    `params` are by the name of a provider, or of a model with or without its provider.
    """
    asked: dict[str, object] = {}
    for name in (provider, model, f"{provider}:{model}"):
        asked |= canonical(params.get(name, {}))
    return asked


def extra_params(
    profile: ModelProfile, target: Target, asked: Mapping[str, object] | None = None
) -> dict[str, object] | None:
    """What a model of OpenAI's is asked with by default, under what settings ask of it.

    None where there is nothing to add.
    """
    params: dict[str, object] = {}
    if target.told is None and target.provider in OPENAI_FAMILY and profile.verbosity:
        params["parallel_tool_calls"] = profile.parallel_tool_calls
        if profile.default_verbosity:
            params["text_verbosity"] = profile.default_verbosity
    return (params | canonical(asked or {})) or None


def resolve(
    profile: ModelProfile,
    target: Target,
    choices: Choices | None = None,
    extra: Mapping[str, object] | None = None,
) -> Params:
    """The parameters that follow from a turn's choices, over what `extra` says.

    A choice wins over `extra`, `extra` over what the model brings. Raises `ConfigError`
    for a value that no request could hold.
    """
    asked, given = choices or Choices(), canonical(extra or {})
    effort = asked.effort or _text(given, "reasoning_effort")
    summary = asked.summary or _text(given, "reasoning_summary")
    tier = service_tier(profile, target, asked.service_tier or _text(given, "service_tier"))
    limits: dict[str, Any] = {**answer_params(target, given), **cache_params(target, given)}
    verbosity = asked.verbosity or _verbosity(given)
    if target.told is not None:
        # Such a harness brings defaults of its own; only what was asked for is said.
        return Params(
            effort=turn_effort(profile, effort),
            summary=summary,
            verbosity=verbosity and profile.verbosity_for(verbosity),
            service_tier=tier,
        )
    shown, sent = summary or profile.reasoning_summary, wire_effort(profile, effort)
    if target.api == "messages" and limits.get("temperature") not in (None, 1):
        _refuse_thinking(profile.slug, sent, limits)
    return Params(
        parallel_tool_calls=_switch(given, profile.parallel_tool_calls),
        effort=sent,
        summary=None if shown == "none" else shown,
        verbosity=profile.verbosity_for(verbosity),
        service_tier=tier,
        **limits,
    )


def unheld(target: Target, asked: Mapping[str, object]) -> tuple[str, ...]:
    """The parameters that settings ask for and that the harness cannot be told."""
    if target.told is None:
        return ()
    return tuple(name for name in sorted(canonical(asked)) if _FIELD.get(name) not in target.told)


def limit(params: Params, able: Capabilities) -> Params:
    """`params` without what the API of a connection does not take."""
    return msgspec.structs.replace(
        params,
        parallel_tool_calls=params.parallel_tool_calls and able.parallel_tool_calls,
        summary=params.summary if able.reasoning_summaries else None,
    )


def check_schema(able: Capabilities, choices: Choices, profile: ModelProfile) -> None:
    """Raise `ConfigError` where an answer must fit a schema that the API does not take."""
    if choices.output_schema is not msgspec.UNSET and not able.output_schema:
        raise ConfigError(
            f"the model {profile.slug!r} takes no output schema; leave `schema` out, or ask "
            "another model"
        )


def add_params(head: Head, params: Params) -> Head:
    """`head` with the parameters of a turn."""
    return msgspec.structs.replace(head, **msgspec.structs.asdict(params))


def _refuse_thinking(slug: str, effort: str | None, limits: Mapping[str, Any]) -> None:
    """Raise `ConfigError` where Claude would have to think at a temperature, which it refuses."""
    from ..models.formats.messages import thinks

    if thinks(slug, effort, limits.get("max_output_tokens")):
        raise ConfigError(
            f"the parameter 'temperature' cannot be {limits['temperature']!r} while "
            f"{slug!r} thinks with the effort {effort!r}; leave one of the two out"
        )


def _switch(given: Mapping[str, object], default: bool) -> bool:
    value = given.get("parallel_tool_calls")
    if value is None:
        return default
    return bool(check(value, "parallel_tool_calls", "true or false", _is_switch))


def _text(given: Mapping[str, object], name: str) -> str | None:
    value = given.get(name)
    return None if value is None else str(check(value, name, "a word", _is_word))


def _verbosity(given: Mapping[str, object]) -> str | None:
    value = _text(given, "text_verbosity")
    if value is None:
        return None
    wanted = f"one of {', '.join(_VERBOSITIES)}"
    return str(check(value, "text_verbosity", wanted, _VERBOSITIES.__contains__))


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value)
