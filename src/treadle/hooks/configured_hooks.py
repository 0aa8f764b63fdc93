"""Configured hooks: hooks from settings, from projects and from installed packages.

Owns what identifies a project's hook: its settings, and the bytes of the project's files that
its command names. Invariant: such a hook runs only as the user has trusted it; that is
checked each time, because whoever works in the project can write to its files.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from msgspec import Struct

from ..config import Config
from ..config.settings import HookSettings
from ..config.trusted_files import TrustStore
from ..core.errors import HookFailed
from ..core.files import open_regular
from ..core.plugins import PluginGroup
from ..core.wire import json_bytes
from .hooks import Hooks
from .payloads import COMMON_EVENTS, Hook, HookAnswer, Payload

__all__ = [
    "MOST_SHOWN",
    "ProjectHook",
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
        root = self.root.resolve()
        found = ((self.root / word).resolve() for word in _words(self.settings.command))
        return tuple(dict.fromkeys(path for path in found if _is_file_below(path, root)))

    @property
    def digest(self) -> str:
        """Return what identifies the hook as it is now."""
        seen = hashlib.sha256(json_bytes(self.settings))
        for path in self.sources:
            seen.update(f"\n{path}\n".encode())
            seen.update(_file_digest(path))
        return f"sha256:{seen.hexdigest()}"

    @property
    def text(self) -> str:
        """Return what a user should read before trusting it."""
        command = f"{self.settings.event}: {' '.join(self.settings.command)}"
        files = [f"{path}:\n{_file_excerpt(path)}" for path in self.sources]
        return "\n\n".join((command, *files))

    def is_trusted(self, trust: TrustStore) -> bool:
        """Return whether it may run as it is."""
        return trust.is_hook_trusted(self.file, self.name, self.digest)

    def trust(self, trust: TrustStore, digest: str | None = None) -> None:
        """Let it run as it was seen, or as it is."""
        trust.trust_hook(self.file, self.name, digest or self.digest)


class TrustedHook(Struct, frozen=True):
    """A project's hook that was trusted; it is checked again before each run."""

    hook: Hook
    of: ProjectHook
    digest: str

    async def __call__(self, payload: Payload) -> HookAnswer | None:
        """Check that the hook has not changed, and call it. Raises `HookFailed`."""
        if await asyncio.to_thread(lambda: self.of.digest) != self.digest:
            raise HookFailed(
                f"hook {self.of.name!r} of {str(self.of.file)!r} has changed since it was trusted; "
                "read it, then `treadle trust` lets it run"
            )
        return await self.hook(payload)


def events_by_name() -> dict[str, type[Payload]]:
    """Return the events by every name that a configuration may use."""
    ours = {str(payload.__struct_config__.tag): payload for payload in get_args(Payload)}
    return {**ours, **COMMON_EVENTS}


def load_hooks(config: Config, home: Path) -> Hooks:
    """Load the hooks of the configuration and of installed packages. Raises `ConfigError`.

    A project's hook that is not trusted as it is does not run; `untrusted_hooks` lists these.
    """
    trust, hooks = TrustStore(home), Hooks()
    projects = {each.name: each for each in project_hooks(config)}
    for name, settings in config.settings.hooks.items():
        hook = _command_hook(settings, projects.get(name), trust)
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
    settings: HookSettings, project: ProjectHook | None, trust: TrustStore
) -> Hook | None:
    from .command_hook import CommandHook  # loads subprocesses, which few configurations need

    common = settings.event in COMMON_EVENTS
    if project is None:
        return CommandHook(settings.command, common=common)
    digest = project.digest
    if not trust.is_hook_trusted(project.file, project.name, digest):
        return None
    hook = CommandHook(settings.command, common=common, cwd=project.root)
    return TrustedHook(hook, project, digest)


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


def _words(command: tuple[str, ...]) -> Iterator[str]:
    """Yield the words of a command, and those of the scripts within it."""
    import shlex  # only hooks of a project need it

    for word in command:
        yield word
        try:
            yield from shlex.split(word)
        except ValueError:
            continue


def _is_file_below(path: Path, root: Path) -> bool:
    try:
        return path.is_relative_to(root) and path.is_file()
    except OSError:
        return False


def _file_digest(path: Path) -> bytes:
    """Return what identifies all of a file, however long it is."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        return hashlib.sha256(f"unreadable: {error.strerror}".encode()).digest()


def _file_excerpt(path: Path) -> str:
    """Return the beginning of a file, and how much does not follow."""
    try:
        with open_regular(path) as file:
            data, size = file.read(MOST_SHOWN), os.fstat(file.fileno()).st_size
    except OSError as error:
        return f"unreadable: {error.strerror}"
    more = f"\n… {size - len(data):,} more bytes are not shown" if size > len(data) else ""
    return data.decode(errors="replace") + more
