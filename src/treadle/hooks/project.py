"""Project hooks: commands that a project's configuration brings along.

Owns what identifies one: what the configuration says of it, and the bytes of the project's
files that its command names. Invariant: such a hook runs only as the user has trusted it;
that is looked at each time, for whoever works in the project can write to its files.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ..config import Config
from ..config.settings import HookSettings
from ..config.trust import Trust
from ..core.errors import HookFailed
from ..core.files import open_regular
from ..core.wire import json_bytes
from .answers import Answer, Hook
from .payloads import Payload

__all__ = ["MOST_SHOWN", "ProjectHook", "Watched", "project_hooks"]

MOST_SHOWN = 256 << 10
"""Bytes of a file that somebody is asked to read."""


class ProjectHook(Struct, frozen=True):
    """A hook of a project."""

    file: Path
    """The configuration that names it."""
    name: str
    settings: HookSettings

    @property
    def root(self) -> Path:
        """The project's directory, where the hook runs."""
        return self.file.parent.parent

    @property
    def sources(self) -> tuple[Path, ...]:
        """The project's files that the command names."""
        root = self.root.resolve()
        found = ((self.root / word).resolve() for word in _words(self.settings.command))
        return tuple(dict.fromkeys(path for path in found if _is_of(path, root)))

    @property
    def digest(self) -> str:
        """What the hook is at present."""
        seen = hashlib.sha256(json_bytes(self.settings))
        for path in self.sources:
            seen.update(f"\n{path}\n".encode())
            seen.update(_digest(path))
        return f"sha256:{seen.hexdigest()}"

    @property
    def text(self) -> str:
        """What somebody should read before they trust it."""
        command = f"{self.settings.event}: {' '.join(self.settings.command)}"
        files = [f"{path}:\n{_shown(path)}" for path in self.sources]
        return "\n\n".join((command, *files))

    def is_trusted(self, trust: Trust) -> bool:
        """Whether it may run as it is."""
        return trust.holds_hook(self.file, self.name, self.digest)

    def trust(self, trust: Trust, digest: str | None = None) -> None:
        """Let it run as it was seen, or as it is."""
        trust.give_hook(self.file, self.name, digest or self.digest)


class Watched(Struct, frozen=True):
    """A project's hook that is looked at before each time it runs."""

    hook: Hook
    of: ProjectHook
    digest: str

    async def __call__(self, payload: Payload) -> Answer | None:
        """What the hook answers. Raises `HookFailed`."""
        if await asyncio.to_thread(lambda: self.of.digest) != self.digest:
            raise HookFailed(
                f"hook {self.of.name!r} of {str(self.of.file)!r} has changed since it was trusted; "
                "read it, then `treadle trust` lets it run"
            )
        return await self.hook(payload)


def project_hooks(config: Config) -> tuple[ProjectHook, ...]:
    """The hooks on which a trusted project's file has a say."""
    if config.project is None:
        return ()
    keys = (key for layer in config.layers if layer.kind == "project" for key in layer.leaves)
    told = {key[1] for key in keys if key[0] == "hooks"}
    hooks = config.settings.hooks
    return tuple(ProjectHook(config.project, name, hooks[name]) for name in hooks if name in told)


def _words(command: tuple[str, ...]) -> Iterator[str]:
    """The words of a command, and those of the scripts within it."""
    import shlex

    for word in command:
        yield word
        try:
            yield from shlex.split(word)
        except ValueError:
            continue


def _is_of(path: Path, root: Path) -> bool:
    try:
        return path.is_relative_to(root) and path.is_file()
    except OSError:
        return False


def _digest(path: Path) -> bytes:
    """What identifies all of a file, however long it is."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        return hashlib.sha256(f"unreadable: {error.strerror}".encode()).digest()


def _shown(path: Path) -> str:
    """The beginning of a file, and how much does not follow."""
    try:
        with open_regular(path) as file:
            data, size = file.read(MOST_SHOWN), os.fstat(file.fileno()).st_size
    except OSError as error:
        return f"unreadable: {error.strerror}"
    more = f"\n… {size - len(data):,} more bytes are not shown" if size > len(data) else ""
    return data.decode(errors="replace") + more
