"""Accounts: which profiles may be used for which provider and harness.

Pure. Owns what a harness that signs in by itself is given.
Invariants: a profile is used for its own provider only; and a route that needs one kind of
credential never falls back to another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from ...models.catalog import PROVIDER_ALIASES
from .credential import Kind, Profile, RouteRefused, Source
from .order import ProfileCandidate

__all__ = [
    "Forwarding",
    "Login",
    "Requirement",
    "check_bound",
    "decide_login",
    "forwarding",
    "harness_login",
    "payer_of",
    "provider_for_auth",
    "requirement_of",
]

_SIGNS_IN: Mapping[str, tuple[str, frozenset[str]]] = {
    "codex": ("openai", frozenset(("openai", "codex"))),
}
"""Harnesses that sign in by themselves: the provider of their profiles, and of which models."""

Requirement: TypeAlias = Literal["api-key", "subscription"]
"""The kind of credential that pays for a route."""


class Forwarding(Struct, frozen=True, kw_only=True):
    """The profiles that a harness may use; an empty `profile` forwards none."""

    provider_for_auth: str
    harness_provider: str | None = None
    """The provider whose profiles the harness signs in with, if it does so itself."""
    profile: str = ""
    source: Source | None = None
    mode: Kind | None = None
    candidates: tuple[str, ...] = ()


class Login(Struct, frozen=True, kw_only=True):
    """How a harness signs in: by itself, with a key, or with a profile's tokens."""

    how: Literal["native", "api-key", "profile"]
    profile: str = ""
    """The profile whose secret is used; the harness stores the id of a ``profile`` login only."""


def provider_for_auth(provider: str) -> str:
    """Return the provider whose accounts `provider` means.

    >>> [provider_for_auth(name) for name in ("openai-codex", "codex-cli", "codex")]
    ['openai', 'openai', 'codex']
    """
    name = provider.strip().lower()
    return PROVIDER_ALIASES.get(name, name)


def payer_of(provider: str) -> str:
    """Return the provider whose profiles may pay for models of `provider`.

    Models that only a harness reaches are paid by the provider that it signs in to.

    >>> [payer_of(name) for name in ("openai-codex", "codex", "anthropic")]
    ['openai', 'openai', 'anthropic']
    """
    name = provider_for_auth(provider)
    signs_in, models = _SIGNS_IN.get(name, ("", frozenset[str]()))
    return signs_in if name in models else name


def forwarding(provider: str, harness: str, found: Sequence[ProfileCandidate]) -> Forwarding:
    """Return which of `found`, in their order, may be used for `provider` on `harness`."""
    wanted = provider_for_auth(provider)
    signs_in, models = _SIGNS_IN.get(harness, ("", frozenset[str]()))
    through = signs_in if wanted in models else None
    allowed = [
        each for each in found if provider_for_auth(each.profile.provider) == (through or wanted)
    ]
    if not allowed:
        return Forwarding(provider_for_auth=wanted, harness_provider=through)
    return Forwarding(
        provider_for_auth=wanted,
        harness_provider=through,
        profile=allowed[0].profile.id,
        source=allowed[0].source,
        mode=allowed[0].profile.kind,
        candidates=tuple(each.profile.id for each in allowed),
    )


def requirement_of(kind: Kind) -> Requirement:
    """Return the requirement that a profile of `kind` meets."""
    return "api-key" if kind == "api_key" else "subscription"


def harness_login(
    requirement: Requirement,
    plan: Forwarding,
    profiles: Sequence[Profile],
    *,
    own_home: bool = True,
) -> Login:
    """Return how the harness of `plan` signs in for a route. Raises `RouteRefused`.

    Only the profiles in `plan` are used, never variables or others. A harness that runs in
    the user's home keeps the login that it has there.
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


def decide_login(
    provider: str, harness: str, profile: Profile, *, keeps_login: bool = False
) -> Login | None:
    """Return how `harness` signs in with a profile for models of `provider`.

    None if it does not sign in by itself. A harness that `keeps_login` runs in the user's home.
    Raises `RouteRefused`.
    """
    if harness not in _SIGNS_IN:
        return None
    plan = forwarding(provider, harness, (ProfileCandidate(profile=profile),))
    # Models that only the harness reaches belong to a subscription.
    wanted = "subscription" if provider == harness else requirement_of(profile.kind)
    # A key is no login: a variable passes it on, and the user's own login stays as it is.
    own = not keeps_login or wanted == "api-key"
    return harness_login(wanted, plan, (profile,), own_home=own)


def check_bound(bound: str, plan: Forwarding) -> None:
    """Raise `RouteRefused` if another profile than the bound one would compact a thread."""
    if bound and plan.profile and bound != plan.profile:
        raise RouteRefused(
            f"the thread is bound to profile {bound!r}, and {plan.profile!r} would compact it; "
            "run a turn with the profile that you want first"
        )


def _refusal(requirement: Requirement, plan: Forwarding) -> str:
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
