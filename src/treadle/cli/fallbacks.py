"""Paying: who answers in another model's place, and with whose credentials.

Owns how the configuration and the command line choose fallbacks and profiles. Invariant:
a model that a person chose is answered by no other, unless it has a list of its own or
the person named one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from ..config import Config, Settings
from .cli_home import Home

if TYPE_CHECKING:
    from ..policy.auth import CredentialStore
    from ..thread.thread import Thread

__all__ = ["fallbacks_of", "follow", "follow_choice", "forget_pins", "pin_profile"]

_NAMED = ("flag", "environment")


def fallbacks_of(config: Config, model: str, *, chosen: bool) -> tuple[str, ...]:
    """The models to ask where `model` does not answer; `chosen` says that a person named it."""
    settings = config.settings
    if config.layer_of("fallbacks") in _NAMED:
        return settings.fallbacks
    own = _own(settings, model)
    if own is not None:
        return own
    return () if chosen else settings.fallbacks


def follow(thread: Thread, config: Config) -> None:
    """Let a thread that was opened fall back as it is configured."""
    chosen = config.layer_of("model") in _NAMED
    thread.policy.routes.fallbacks = fallbacks_of(config, thread.model, chosen=chosen)


def follow_choice(thread: Thread, config: Config) -> None:
    """Let a thread whose model a person has just chosen fall back to that model's own list."""
    thread.policy.routes.fallbacks = fallbacks_of(config, thread.model, chosen=True)


async def pin_profile(credentials: CredentialStore, thread: str, profile: str | None) -> None:
    """Let a thread keep to the profile that a person named. Raises `AuthError`."""
    if profile is not None:
        await credentials.pin(thread, profile)


def forget_pins(home: Home, thread: str) -> None:
    """A thread is gone; what it kept to goes with it."""
    from ..policy.auth.auth_state import AuthState

    AuthState(home.path).unpin(thread)


def _own(settings: Settings, model: str) -> tuple[str, ...] | None:
    for name in (model, model.partition(":")[2]):
        found = settings.models.get(name)
        if found is not None and found.fallbacks is not UNSET:
            assert isinstance(found.fallbacks, tuple)
            return found.fallbacks
    return None
