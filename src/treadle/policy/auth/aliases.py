"""Aliases and forwarding: whose profile may be used for what.

Pure. Owns which names mean one account, and what a harness that signs in by itself is
given. Invariants: a profile is used for its own provider and nothing else; and a route
that asks for one kind of credential never falls back to another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from .errors import RouteRefused
from .order import Candidate
from .profile import Kind, Profile, Source

__all__ = [
    "ALIASES",
    "Forwarded",
    "Login",
    "Requirement",
    "bound_profile",
    "check_bound",
    "forwarded",
    "payer_of",
    "prepared",
    "provider_for_auth",
    "requirement_of",
]

ALIASES: Mapping[str, str] = {"openai-codex": "openai", "codex-cli": "openai"}
"""Names under which accounts of another provider are known."""

_SIGNS_IN: Mapping[str, tuple[str, frozenset[str]]] = {
    "codex": ("openai", frozenset(("openai", "codex"))),
}
"""Harnesses that sign in by themselves: with whose profiles, for models of which providers."""

Requirement: TypeAlias = Literal["api-key", "subscription"]
"""What a route is paid with."""


class Forwarded(Struct, frozen=True, kw_only=True):
    """What a harness is told about profiles; an empty `profile` forwards none."""

    provider_for_auth: str
    harness_provider: str | None = None
    """Whose profiles the harness signs in with, if it does so itself."""
    profile: str = ""
    source: Source | None = None
    mode: Kind | None = None
    candidates: tuple[str, ...] = ()


class Login(Struct, frozen=True, kw_only=True):
    """How a harness signs in: by itself, with a key, or with a profile's tokens."""

    how: Literal["native", "api-key", "profile"]
    profile: str = ""
    """Whose secret it is; the harness keeps the id of a ``profile`` login only."""


def provider_for_auth(provider: str) -> str:
    """The provider whose accounts are meant by `provider`.

    >>> [provider_for_auth(name) for name in ("openai-codex", "codex-cli", "codex")]
    ['openai', 'openai', 'codex']
    """
    name = provider.strip().lower()
    return ALIASES.get(name, name)


def payer_of(provider: str) -> str:
    """The provider whose profiles may pay for models of `provider`.

    Models that only a harness reaches are paid by whom that harness signs in with.

    >>> [payer_of(name) for name in ("openai-codex", "codex", "anthropic")]
    ['openai', 'openai', 'anthropic']
    """
    name = provider_for_auth(provider)
    signs_in, models = _SIGNS_IN.get(name, ("", frozenset[str]()))
    return signs_in if name in models else name


def forwarded(provider: str, harness: str, found: Sequence[Candidate]) -> Forwarded:
    """What of `found`, in their order, may be used for `provider` on `harness`."""
    wanted = provider_for_auth(provider)
    signs_in, models = _SIGNS_IN.get(harness, ("", frozenset[str]()))
    through = signs_in if wanted in models else None
    allowed = [each for each in found if _may(each.profile, through or wanted)]
    plan = Forwarded(provider_for_auth=wanted, harness_provider=through)
    if not allowed:
        return plan
    return Forwarded(
        provider_for_auth=wanted,
        harness_provider=through,
        profile=allowed[0].profile.id,
        source=allowed[0].source,
        mode=allowed[0].profile.kind,
        candidates=tuple(each.profile.id for each in allowed),
    )


def requirement_of(kind: Kind) -> Requirement:
    """What a route is paid with that uses a profile of `kind`."""
    return "api-key" if kind == "api_key" else "subscription"


def prepared(
    requirement: Requirement,
    plan: Forwarded,
    profiles: Sequence[Profile],
    *,
    own_home: bool = True,
) -> Login:
    """How the harness of `plan` signs in for a route. Raises `RouteRefused`.

    Only profiles that `plan` forwards are looked at, never variables or others. A harness
    that runs in the user's home keeps the login that it has there.
    """
    if not own_home:
        return Login(how="native")
    known = {each.id: each for each in profiles}
    offered = [known[name] for name in plan.candidates if name in known]
    fitting = [each for each in offered if requirement_of(each.kind) == requirement]
    if fitting:
        how: Literal["api-key", "profile"] = "api-key" if requirement == "api-key" else "profile"
        return Login(how=how, profile=fitting[0].id)
    raise RouteRefused(_refusal(requirement, plan))


def bound_profile(explicit: str, bound: str) -> tuple[str, bool]:
    """The profile of a thread that a harness has bound, and whether to bind it anew.

    One that was named comes before the one of the binding; without a name the binding's
    is used again.
    """
    chosen = explicit or bound
    return chosen, chosen != bound


def check_bound(bound: str, plan: Forwarded) -> None:
    """Refuse to fold what a harness keeps for one profile with another. Raises `RouteRefused`."""
    if bound and plan.profile and bound != plan.profile:
        raise RouteRefused(
            f"the thread is bound to profile {bound!r}, and {plan.profile!r} would fold it; "
            "run a turn with the profile that is wanted first"
        )


def _may(profile: Profile, provider: str) -> bool:
    return provider_for_auth(profile.provider) == provider


def _refusal(requirement: Requirement, plan: Forwarded) -> str:
    provider = plan.harness_provider or plan.provider_for_auth
    if requirement == "api-key":
        return (
            f"the API-key route of {provider!r} has no key; "
            f"set its variable, or run `treadle auth add {provider}`"
        )
    return (
        f"the subscription route of {provider!r} needs an oauth or token profile of it, and none "
        f"may be forwarded; run `treadle auth add {provider} --oauth`"
    )
