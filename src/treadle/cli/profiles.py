"""Profiles as commands show them: the source and the state of each.

Invariant: nothing here ever holds a secret.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from ..config import Settings, load_config
from ..config.settings import key_variable
from ..core.choices import nearest
from ..core.errors import NotFound
from ..models.providers import provider_names
from ..policy.auth import CredentialStore, Profile
from ..policy.auth.cooldowns import ProfileHealth, obstacle
from ..policy.auth.order import ProfileCandidate
from .cli_home import Home
from .output import Column, iso, table

__all__ = [
    "ProfileRow",
    "candidate_row",
    "check_provider",
    "credentials_of",
    "find_profile",
    "print_profiles",
    "profile_rows",
    "settings_of",
    "state_of",
]

_ALIKE = 0.75
"""Short names are easily taken for each other."""
_COLUMNS = (Column("PROFILE"), Column("KIND"), Column("FROM"), Column("STATE", gives=True))


class ProfileRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts about one profile."""

    profile: str
    provider: str
    kind: str
    key: str
    """``environment`` or ``kept``."""
    place: str
    variable: str
    """The variable of the provider's key, which comes first."""
    state: str
    """``ready``, ``expired``, ``cooldown``, ``blocked`` or ``disabled``."""
    reason: str = ""
    until: str = ""
    limits: dict[str, str] = {}
    """Models for which it is paused, and until when."""
    email: str = ""
    label: str = ""
    expires: str = ""
    last_used: str = ""
    last_good: bool = False
    """Whether it is the one of its provider that worked last."""
    pinned: bool = False


def settings_of(home: Home) -> Settings:
    """Return the settings that apply here."""
    return load_config(home.path, Path().absolute(), os.environ).settings


def credentials_of(home: Home, settings: Settings) -> CredentialStore:
    """Return the profiles of `home`, in the order of its settings."""
    orders = {
        name: provider.profiles
        for name, provider in settings.providers.items()
        if isinstance(provider.profiles, tuple)
    }
    return CredentialStore(
        home.path,
        environ=os.environ,
        orders=orders,
        variable=lambda provider: key_variable(provider, settings.providers),
    )


def profile_rows(credentials: CredentialStore, settings: Settings) -> list[ProfileRow]:
    """Return every known profile, by id."""
    kept = credentials.secrets.profiles()
    named = {*provider_names(), *settings.providers, *(each.provider for each in kept)}
    found = {each.id: each for name in named for each in credentials.profiles(name)}
    health = credentials.state.health()
    return [
        _describe(credentials, found[name], health.get(name, ProfileHealth()))
        for name in sorted(found)
    ]


def print_profiles(rows: list[ProfileRow]) -> None:
    """Print profiles for people."""
    table(_COLUMNS, [[row.profile, row.kind, _from(row), state_of(row)] for row in rows])


def state_of(row: ProfileRow) -> str:
    """Return the state of a profile as text."""
    words = row.state
    if row.until:
        words += f" until {row.until} ({row.reason})"
    limited = ", ".join(f"{model or 'any model'} until {end}" for model, end in row.limits.items())
    return f"{words}, but not for {limited}" if limited and row.state == "ready" else words


def find_profile(credentials: CredentialStore, name: str) -> Profile:
    """Return the stored profile of that name: an id, or the default or only one of a provider.

    Raises `NotFound`.
    """
    kept = {each.id: each for each in credentials.secrets.profiles()}
    for spelled in (name, f"{name}:default"):
        if spelled in kept:
            return kept[spelled]
    alone = [each for each in kept.values() if each.provider == name]
    if len(alone) == 1:
        return alone[0]
    hint = f"there are {', '.join(each.id for each in alone)}" if alone else ""
    raise NotFound("profile", name, hint or "`treadle auth` lists the stored ones")


def check_provider(settings: Settings, provider: str) -> None:
    """Raise `NotFound` for an unknown provider."""
    known = (*provider_names(), *settings.providers)
    if provider not in known:
        close = nearest(provider, known, alike=_ALIKE)
        hint = f"did you mean {close!r}?" if close else f"the known ones are {', '.join(known)}"
        raise NotFound("provider", provider, hint)


def candidate_row(credentials: CredentialStore, candidate: ProfileCandidate) -> ProfileRow:
    """Return the row of a candidate."""
    health = credentials.state.health().get(candidate.profile.id, ProfileHealth())
    return _describe(credentials, candidate.profile, health, pinned=candidate.pinned)


def _describe(
    credentials: CredentialStore, profile: Profile, health: ProfileHealth, *, pinned: bool = False
) -> ProfileRow:
    now = credentials.clock()
    held = obstacle(health, now)
    limits = {name: each for name, each in health.limits.items() if name and each.until > now}
    return ProfileRow(
        profile=profile.id,
        provider=profile.provider,
        kind=profile.kind,
        key="environment" if profile.place == "environment" else "kept",
        place=profile.place,
        variable=credentials.variable(profile.provider),
        state=held.state if held else "expired" if profile.is_expired(now) else "ready",
        reason=held.reason if held else "",
        until=iso(held.until) if held else "",
        limits={name: iso(each.until) for name, each in limits.items()},
        email=profile.email,
        label=profile.label if profile.place != "environment" else "",
        expires=iso(profile.expires) if profile.expires else "",
        last_used=iso(health.last_used) if health.last_used else "",
        last_good=credentials.state.last_good().get(profile.provider) == profile.id,
        pinned=pinned,
    )


def _from(row: ProfileRow) -> str:
    return row.variable if row.place == "environment" else row.place
