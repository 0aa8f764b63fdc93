"""The values of request parameters that depend on who is asked.

Owns the service tiers and the cache lifetimes that each provider has, and the limits of
numbers. Invariant: a value that its target does not take is an error that says what it
takes, before anything is sent; nothing is left out silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..core.errors import ConfigError
from ..models.profile import ModelProfile
from .target import OPENAI_FAMILY, Target

__all__ = ["CACHE_PARAMETERS", "answer_params", "cache_params", "check", "service_tier"]

CACHE_PARAMETERS = ("prompt_cache_retention", "cache_ttl", "cache_breakpoints")

_OPENAI_TIERS = ("auto", "default", "flex", "priority", "scale", "fast", "ultrafast")
_TIERS = {
    "anthropic": ("auto", "standard_only"),
    "azure": _OPENAI_TIERS,
    "groq": ("auto", "on_demand", "flex", "performance"),
    "openai": _OPENAI_TIERS,
}
_RETENTIONS = ("in_memory", "24h")
_OPENAI_LIFETIMES = ("30m", "12h")
_CLAUDE_LIFETIMES = ("5m", "1h")


def service_tier(profile: ModelProfile, target: Target, tier: str | None) -> str | None:
    """Return the tier to ask for. Raises `ConfigError` for one that nobody has."""
    if tier is None:
        return None
    offered = () if target.told is not None else _TIERS.get(target.provider, ())
    known = dict.fromkeys((*offered, *profile.service_tiers))
    if tier in known:
        return tier
    who = f"{target.provider}:{target.model}"
    if target.told is not None:
        who += f" on {target.harness}"
    remedy = (
        f"use one of {', '.join(known)}"
        if known
        else "leave it out, or list the model's `service_tiers` in models.toml"
    )
    raise ConfigError(f"the service tier {tier!r} is none of {who}; {remedy}")


def answer_params(target: Target, given: Mapping[str, object]) -> dict[str, object]:
    """Return the limits of an answer in `given`. Raises `ConfigError`."""
    told: dict[str, object] = {}
    if (most := given.get("max_output_tokens")) is not None:
        _refuse_untold(target, "max_output_tokens")
        told["max_output_tokens"] = check(
            most, "max_output_tokens", "a whole number above 0", _is_count
        )
    if (warmth := given.get("temperature")) is not None:
        _refuse_untold(target, "temperature")
        highest = 1 if target.api == "messages" else 2
        told["temperature"] = check(
            warmth,
            "temperature",
            f"a number from 0 to {highest}",
            lambda value: _is_number(value) and 0 <= float(str(value)) <= highest,
        )
    return told


def cache_params(target: Target, given: Mapping[str, object]) -> dict[str, object]:
    """Return what `given` says about the provider's prompt cache. Raises `ConfigError`."""
    asked = {name: given[name] for name in CACHE_PARAMETERS if given.get(name) is not None}
    for name in asked:
        _refuse_untold(target, name)
    told: dict[str, object] = {}
    if "prompt_cache_retention" in asked:
        kept = asked["prompt_cache_retention"]
        _check_word(kept, "prompt_cache_retention", _RETENTIONS if _is_openai(target) else ())
        told["cache_retention"] = kept
    if "cache_ttl" in asked:
        _check_word(asked["cache_ttl"], "cache_ttl", _lifetimes(target))
        told["cache_ttl"] = asked["cache_ttl"]
    if "cache_breakpoints" in asked:
        wanted = check(
            asked["cache_breakpoints"],
            "cache_breakpoints",
            "true or false",
            lambda value: isinstance(value, bool),
        )
        if wanted and not (_is_openai(target) and target.api == "responses"):
            raise ConfigError(
                f"{target.provider}:{target.model} takes no 'cache_breakpoints'; leave it out"
            )
        told["cache_breakpoints"] = wanted
    return told


def check(value: object, name: str, wanted: str, fits: Callable[[object], bool]) -> object:
    """Return `value`. Raises `ConfigError` if it does not fit."""
    if not fits(value):
        raise ConfigError(f"the parameter {name!r} cannot be {value!r}; use {wanted}")
    return value


def _refuse_untold(target: Target, name: str) -> None:
    if target.told is not None:
        raise ConfigError(
            f"the harness {target.harness!r} has no place for the parameter {name!r}; "
            "leave it out, or use the harness 'treadle'"
        )


def _lifetimes(target: Target) -> tuple[str, ...]:
    if target.api == "messages" or _is_claude_of_openrouter(target):
        return _CLAUDE_LIFETIMES
    return _OPENAI_LIFETIMES if _is_openai(target) else ()


def _is_claude_of_openrouter(target: Target) -> bool:
    return target.provider == "openrouter" and target.model.startswith("anthropic/")


def _is_openai(target: Target) -> bool:
    return target.provider in OPENAI_FAMILY and target.api in ("responses", "chat")


def _check_word(value: object, name: str, known: tuple[str, ...]) -> None:
    wanted = f"one of {', '.join(known)}" if known else "none: this model takes no such parameter"
    check(value, name, wanted, known.__contains__)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
