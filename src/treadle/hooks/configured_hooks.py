"""Configured hooks: hooks from settings, from projects and from installed packages.

Owns what identifies a project's hook: its settings, and the bytes of the project's files that
its command names. Invariant: such a hook runs only as the user has trusted it; that is
checked each time, because whoever works in the project can write to its files, and what was
checked is what runs: a private copy.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import get_args

from msgspec import Struct

from ..config import Config
from ..config.settings import HookSettings
from ..config.trusted_files import TrustStore
from ..core.errors import HookFailed
from ..core.plugins import PluginGroup
from ..core.search_path import working_directory
from ..core.wire import json_bytes
from .hook_files import HookCommand, check_own_command, read_command, safe_environment
from .hooks import Hooks
from .payloads import COMMON_EVENTS, Hook, HookAnswer, Payload

__all__ = [
    "MOST_SHOWN",
    "ProjectHook",
    "ReadHook",
    "TrustedHook",
    "events_by_name",
    "load_hooks",
    "project_hooks",
    "register_installed",
    "untrusted_hooks",
]

_HOOKS = PluginGroup("treadle.hooks", "hook")
"""Packages offer functions that register their hooks."""

MOST_SHOWN = 256 << 10
"""Bytes of a file that a user is asked to read."""


class ProjectHook(Struct, frozen=True):
    """A hook of a project."""

    file: Path
    """The configuration that names it."""
    name: str
    settings: HookSettings

    @property
    def root(self) -> Path:
        """Return the project's directory, where the hook runs."""
        return self.file.parent.parent

    @property
    def sources(self) -> tuple[Path, ...]:
        """Return the project's files that the command names."""
        return tuple(dict.fromkeys(source.path for source in self.read().command.sources))

    @property
    def digest(self) -> str:
        """Return what identifies the hook as it is now."""
        return self.read().digest

    def read(self) -> ReadHook:
        """Read the command and its files, once for all questions about them."""
        return ReadHook(self, read_command(self.settings.command, self.root))

    def is_trusted(self, trust: TrustStore) -> bool:
        """Return whether it may run as it is."""
        return self.read().is_trusted(trust)

    def trust(self, trust: TrustStore, digest: str | None = None) -> None:
        """Let it run as it was seen, or as it is."""
        trust.trust_hook(self.file, self.name, digest or self.digest)


class ReadHook(Struct, frozen=True):
    """A project's hook with the bytes of its files, as they were read."""

    of: ProjectHook
    command: HookCommand

    @property
    def digest(self) -> str:
        """Return what identifies the hook as it was read."""
        seen = hashlib.sha256(json_bytes(self.of.settings))
        for path, data in {source.path: source.data for source in self.command.sources}.items():
            seen.update(f"\n{path}\n".encode())
            seen.update(hashlib.sha256(data).digest())
        return f"sha256:{seen.hexdigest()}"

    @property
    def problem(self) -> str:
        """Return why it can never run as it is; empty where nothing keeps it from being trusted."""
        return self.command.problem

    @property
    def text(self) -> str:
        """Return what a user should read before trusting it."""
        settings = self.of.settings
        files = {source.path: source.data for source in self.command.sources}
        shown = [f"{path}:\n{_excerpt(data)}" for path, data in files.items()]
        return "\n\n".join((f"{settings.event}: {' '.join(settings.command)}", *shown))

    def is_trusted(self, trust: TrustStore) -> bool:
        """Return whether it may run as it was read."""
        trusted = trust.is_hook_trusted(self.of.file, self.of.name, self.digest)
        return trusted and not self.problem


class TrustedHook(Struct, frozen=True):
    """A project's hook that was trusted. It is read before each run, and what was read runs."""

    of: ProjectHook
    digest: str
    copies: Path
    """Where private copies of its files lie, out of reach for commands."""

    async def __call__(self, payload: Payload) -> HookAnswer | None:
        """Check that the hook has not changed, and run a copy of it. Raises `HookFailed`."""
        from .command_hook import CommandHook  # loads subprocesses

        argv = await asyncio.to_thread(self._copy)
        settings, root = self.of.settings, self.of.root
        environ = safe_environment(os.environ, root)
        hook = CommandHook(
            argv,
            common=settings.event in COMMON_EVENTS,
            cwd=root,
            environ=environ,
            name=settings.command[0],
        )
        return await hook(payload)

    def _copy(self) -> tuple[str, ...]:
        now = self.of.read()
        if now.digest != self.digest or now.problem:
            raise HookFailed(
                f"hook {self.of.name!r} of {str(self.of.file)!r} has changed since it was trusted; "
                "read it, then `treadle trust` lets it run"
            )
        try:
            return now.command.copy_to(self.copies)
        except OSError as error:
            raise HookFailed(
                f"hook {self.of.name!r} cannot be copied to {str(self.copies)!r}: {error.strerror}"
            ) from error


def events_by_name() -> dict[str, type[Payload]]:
    """Return the events by every name that a configuration may use."""
    ours = {str(payload.__struct_config__.tag): payload for payload in get_args(Payload)}
    return {**ours, **COMMON_EVENTS}


def load_hooks(config: Config, home: Path) -> Hooks:
    """Load the hooks of the configuration and of installed packages. Raises `ConfigError`.

    A project's hook that is not trusted as it is does not run; `untrusted_hooks` lists these.
    A hook of the user's that depends on the working directory is refused.
    """
    hooks = Hooks()
    projects = {each.name: each for each in project_hooks(config)}
    for name, settings in config.settings.hooks.items():
        hook = _command_hook(name, settings, projects.get(name), home)
        if hook is not None:
            hooks.on(
                events_by_name()[settings.event],
                hook,
                tools=settings.tools,
                priority=settings.priority,
                timeout=settings.timeout,
            )
    register_installed(hooks)
    return hooks


def _command_hook(
    name: str, settings: HookSettings, project: ProjectHook | None, home: Path
) -> Hook | None:
    from .command_hook import CommandHook  # loads subprocesses, which few configurations need

    if project is None:
        check_own_command(name, settings.command)
        environ = safe_environment(os.environ, working_directory())
        return CommandHook(
            settings.command, common=settings.event in COMMON_EVENTS, environ=environ
        )
    read = project.read()
    if not read.is_trusted(TrustStore(home)):
        return None
    return TrustedHook(project, read.digest, home / "hooks")


def project_hooks(config: Config) -> tuple[ProjectHook, ...]:
    """Return the hooks that a trusted project's file names or changes."""
    if config.project is None:
        return ()
    keys = (key for layer in config.layers if layer.kind == "project" for key in layer.values)
    named = {key[1] for key in keys if key[0] == "hooks"}
    hooks = config.settings.hooks
    return tuple(ProjectHook(config.project, name, hooks[name]) for name in hooks if name in named)


def untrusted_hooks(config: Config, home: Path) -> tuple[ProjectHook, ...]:
    """Return the project's hooks that do not run until the user trusts them as they are."""
    trust = TrustStore(home)
    return tuple(each for each in project_hooks(config) if not each.is_trusted(trust))


def register_installed(hooks: Hooks) -> tuple[str, ...]:
    """Let installed packages register their hooks; return the names of their entry points.

    Raises `ConfigError`: a hook that should guard something is not skipped in silence.
    """
    return _HOOKS.use_all(lambda register: register(hooks))


def _excerpt(data: bytes) -> str:
    """Return the beginning of a file, and how much does not follow."""
    more = len(data) - MOST_SHOWN
    return data[:MOST_SHOWN].decode(errors="replace") + (
        f"\n… {more:,} more bytes are not shown" if more > 0 else ""
    )
