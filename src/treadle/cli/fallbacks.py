"""The fallbacks of a model, as the configuration and the command line choose them.

Invariant: a model that the user chose has no fallback, unless it has a list of its own or
the user named one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import UNSET

from ..config import Config, Settings

if TYPE_CHECKING:
    from ..thread.thread import Thread

__all__ = ["apply_fallbacks", "apply_own_fallbacks", "check_fallbacks", "fallbacks_of"]

_CHOSEN_LAYERS = ("flag", "environment")


def fallbacks_of(config: Config, model: str, *, chosen: bool) -> tuple[str, ...]:
    """Return the models to ask when `model` does not answer; `chosen`: the user named `model`."""
    settings = config.settings
    if config.layer_of("fallbacks") in _CHOSEN_LAYERS:
        return settings.fallbacks
    own = _own_fallbacks(settings, model)
    if own is not None:
        return own
    return () if chosen else settings.fallbacks


def apply_fallbacks(thread: Thread, config: Config) -> None:
    """Set the fallbacks of an open thread as they are configured."""
    chosen = config.layer_of("model") in _CHOSEN_LAYERS
    thread.policy.routes.fallbacks = fallbacks_of(config, thread.model, chosen=chosen)


async def check_fallbacks(thread: Thread) -> None:
    """Raise `InvalidOption` for a fallback that names no model."""
    names = thread.policy.routes.fallbacks
    if not names:
        return
    from ..thread.option_checks import check_used_model  # most threads have none

    for name in names:
        catalog = thread.policy.routes.catalog
        await asyncio.to_thread(check_used_model, name, catalog, thread.policy.harnesses)


def apply_own_fallbacks(thread: Thread, config: Config) -> None:
    """Set the fallbacks of a thread whose model the user has just chosen: the model's own list."""
    thread.policy.routes.fallbacks = fallbacks_of(config, thread.model, chosen=True)


def _own_fallbacks(settings: Settings, model: str) -> tuple[str, ...] | None:
    for name in (model, model.partition(":")[2]):
        found = settings.models.get(name)
        if found is not None and found.fallbacks is not UNSET:
            assert isinstance(found.fallbacks, tuple)
            return found.fallbacks
    return None
