"""Configured hooks: from settings and installed packages to what is called.

Owns which hooks a configuration brings. Invariant: a project's hook that was not trusted as
it is does not run, and is told.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

from ..config import Config
from ..config.settings import HookSettings
from ..config.trust import Trust
from ..core.errors import ConfigError
from ..core.plugins import installed_points
from .answers import Hook
from .payloads import Payload
from .project import ProjectHook, Watched, project_hooks
from .registry import Hooks

__all__ = ["ENTRY_POINTS", "add_installed", "configured_hooks", "events", "untrusted_hooks"]

ENTRY_POINTS = "treadle.hooks"
"""The group in which packages offer functions that register their hooks."""


def events() -> dict[str, type[Payload]]:
    """The events by every name that a configuration may use."""
    from .common import COMMON_EVENTS

    ours = {str(payload.__struct_config__.tag): payload for payload in get_args(Payload)}
    return {**ours, **COMMON_EVENTS}


def configured_hooks(config: Config, home: Path) -> Hooks:
    """The hooks of the configuration and of installed packages. Raises `ConfigError`."""
    trust, hooks = Trust(home), Hooks()
    projects = {each.name: each for each in project_hooks(config)}
    for name, settings in config.settings.hooks.items():
        hook = _command(settings, projects.get(name), trust)
        if hook is not None:
            hooks.on(
                events()[settings.event],
                hook,
                tools=settings.tools,
                priority=settings.priority,
                timeout=settings.timeout,
            )
    add_installed(hooks)
    return hooks


def untrusted_hooks(config: Config, home: Path) -> tuple[ProjectHook, ...]:
    """The project's hooks that do not run until somebody trusts them as they are."""
    trust = Trust(home)
    return tuple(each for each in project_hooks(config) if not each.is_trusted(trust))


def add_installed(hooks: Hooks, group: str = ENTRY_POINTS) -> tuple[str, ...]:
    """Let installed packages register their hooks; the names of their offers.

    Raises `ConfigError`: a hook that should guard something is not left out in silence.
    """
    points = installed_points(group)
    for point in points:
        try:
            register: Callable[[Hooks], object] = point.load()
            register(hooks)
        except Exception as error:
            raise ConfigError(
                f"entry point {point.name!r} ({point.value}) in group {group!r} cannot be "
                f"used: {error}; update or remove the package that offers it"
            ) from error
    return tuple(point.name for point in points)


def _command(settings: HookSettings, project: ProjectHook | None, trust: Trust) -> Hook | None:
    from .command import CommandHook
    from .common import COMMON_EVENTS

    common = settings.event in COMMON_EVENTS
    if project is None:
        return CommandHook(settings.command, common=common)
    digest = project.digest
    if not trust.holds_hook(project.file, project.name, digest):
        return None
    return Watched(CommandHook(settings.command, common=common, cwd=project.root), project, digest)
