"""Transport parameters: what a request says beside its items, tools and instructions.

Owns the defaults of provider families, the spellings of each parameter, and which API
takes which. Invariant: both harnesses are given what follows from the same wishes, and
without wishes a head of ours says what its model brings, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..context.head import Choices
from ..core.entries import Head
from ..core.errors import ConfigError
from ..models.profile import ModelProfile
from .effort import turn_effort, wire_effort
from .target import OPENAI_FAMILY, Target

__all__ = [
    "Parameter",
    "Params",
    "accepts",
    "add_params",
    "asked_of",
    "canonical",
    "extra_params",
    "resolve",
]

Parameter: TypeAlias = Literal[
    "parallel_tool_calls", "effort", "summary", "verbosity", "service_tier"
]

_SPELLINGS = {
    "parallelToolCalls": "parallel_tool_calls",
    "textVerbosity": "text_verbosity",
    "verbosity": "text_verbosity",
    "cached_content": "cachedContent",
    "reasoningEffort": "reasoning_effort",
    "reasoningSummary": "reasoning_summary",
    "serviceTier": "service_tier",
}
_TAKEN: dict[str, frozenset[Parameter]] = {
    "responses": frozenset(
        ("parallel_tool_calls", "effort", "summary", "verbosity", "service_tier")
    ),
    "chat": frozenset(("parallel_tool_calls", "effort", "service_tier")),
    "messages": frozenset(("effort", "summary", "service_tier")),
}
_TAKEN_BY_CODEX: frozenset[Parameter] = frozenset(("effort", "summary", "service_tier"))
_VERBOSITIES = ("low", "medium", "high")


class Params(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parameters of a turn, as its harness is to send them."""

    parallel_tool_calls: bool = True
    effort: str | None = None
    summary: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None


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
    profile: ModelProfile, target: Target, *layers: Mapping[str, object]
) -> dict[str, object] | None:
    """What a model of OpenAI's is asked with by default, under `layers`, the last of which wins.

    None where there is nothing to add. Layers are what a provider prepares, then what the
    user's settings say.
    """
    params: dict[str, object] = {}
    if target.provider in OPENAI_FAMILY and profile.verbosity:
        params["parallel_tool_calls"] = profile.parallel_tool_calls
        if profile.default_verbosity:
            params["text_verbosity"] = profile.default_verbosity
    for layer in layers:
        params |= canonical(layer)
    return params or None


def accepts(target: Target, parameter: Parameter) -> bool:
    """Whether a request to `target` may hold the parameter as a field of its own.

    The Messages API has none for parallel calls: there the choice of tools says it.
    """
    if target.harness == "codex":
        return parameter in _TAKEN_BY_CODEX
    if target.api == "chat" and parameter == "verbosity":
        return target.provider == "openai"
    return parameter in _TAKEN.get(target.api, ())


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
    tier = asked.service_tier or _text(given, "service_tier")
    if target.harness == "codex":
        # Codex brings defaults of its own; only what was asked for is said.
        return Params(
            effort=turn_effort(profile, effort), summary=summary, service_tier=_tier(profile, tier)
        )
    shown = summary or profile.reasoning_summary
    return Params(
        parallel_tool_calls=_switch(given, profile.parallel_tool_calls),
        effort=wire_effort(profile, effort),
        summary=None if shown == "none" else shown,
        verbosity=profile.verbosity_for(asked.verbosity or _verbosity(given)),
        service_tier=_tier(profile, tier),
    )


def add_params(head: Head, params: Params) -> Head:
    """`head` with the parameters of a turn."""
    return msgspec.structs.replace(head, **msgspec.structs.asdict(params))


def _tier(profile: ModelProfile, tier: str | None) -> str | None:
    return tier if tier in profile.service_tiers else None


def _switch(given: Mapping[str, object], default: bool) -> bool:
    value = given.get("parallel_tool_calls")
    if value is None:
        return default
    return bool(_check(value, "parallel_tool_calls", "true or false", _is_switch))


def _text(given: Mapping[str, object], name: str) -> str | None:
    value = given.get(name)
    return None if value is None else str(_check(value, name, "a word", _is_word))


def _verbosity(given: Mapping[str, object]) -> str | None:
    value = _text(given, "text_verbosity")
    if value is None:
        return None
    wanted = f"one of {', '.join(_VERBOSITIES)}"
    return str(_check(value, "text_verbosity", wanted, _VERBOSITIES.__contains__))


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _check(value: object, name: str, wanted: str, fits: Callable[[object], bool]) -> object:
    if not fits(value):
        raise ConfigError(f"the parameter {name!r} cannot be {value!r}; use {wanted}")
    return value
