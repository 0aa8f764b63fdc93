"""Headings: what a person is told of a thread before it begins to work.

Owns the words for its directory, its model and its rights. Invariant: that nothing confines
commands is said in capitals.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .output import printable

if TYPE_CHECKING:
    from ..config.settings import Settings
    from ..thread.thread import Thread
    from .thread_setup import Setup

__all__ = ["about", "shown_directory", "shown_model", "shown_network", "shown_rights"]


def about(setup: Setup, thread: Thread) -> str:
    """Describe directory, model and rights on one line; a missing sandbox in capitals."""
    settings, rights = setup.settings, shown_rights(setup.settings, thread)
    place = shown_directory(setup.cwd)
    return f"{place} · {shown_model(thread)} · {rights} · approval {settings.approval}"


def shown_rights(settings: Settings, thread: Thread) -> str:
    """Say where commands run and what confines them; nothing that does, in capitals."""
    told = thread.log.setup.executor
    where = printable(f"commands run in {told.place}, ") if told and told.place else ""
    if told is not None and told.contains and settings.sandbox != "read-only":
        reaches = settings.executor.network
        network = settings.network is True if reaches is None else reaches
        return f"{where}{'network' if network else 'no network'}"
    if settings.sandbox == "danger-full-access":
        return f"{where}NO SANDBOX: commands can do everything that you can"
    return f"{where}{settings.sandbox}, {shown_network(settings)}"


def shown_directory(place: Path) -> str:
    """Return a directory with `~` for the user's own."""
    user = os.environ.get("HOME", "")
    inside = user not in ("", "/") and place.is_relative_to(user)
    return str(Path("~") / place.relative_to(user)) if inside else str(place)


def shown_network(settings: Settings) -> str:
    """Describe which part of the network sandboxed commands reach."""
    if isinstance(settings.network, bool) or not settings.network:
        return "network" if settings.network else "no network"
    return f"network: {', '.join(settings.network)}"


def shown_model(thread: Thread) -> str:
    """Return the model, and the harness unless it is Treadle's own loop."""
    harness = thread.policy.harnesses.select(thread.model).harness
    return thread.model if harness == "treadle" else f"{thread.model} on {harness}"
