"""Plug-in directories of other agents: what one brings, and which the user has added.

Owns the layout that they share and ``<home>/plugins.json``. Invariants: reading a directory runs
and changes nothing; of what it brings, nothing counts by being added but its skills, and those
as long as they stay as they were.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from ..core.errors import ConfigError, NotFound
from ..core.files import read_bounded, read_private_json, write_private_json
from .places import PLUGINS_FILE

__all__ = [
    "PluginDirectory",
    "PluginHook",
    "add_plugin",
    "added_plugins",
    "read_plugin",
    "remove_plugin",
]

_MANIFESTS = ("plugin.json", ".codex-plugin/plugin.json", ".claude-plugin/plugin.json")
_MOST_BYTES = 256 * 1024
_MOST_LISTED = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class _Manifest(Struct, frozen=True):
    name: str = ""
    version: str = ""
    description: str = ""


class _Plugins(Struct, kw_only=True):
    version: int = 1
    directories: dict[str, str] = field(default_factory=dict)


class PluginHook(Struct, frozen=True, kw_only=True):
    """What another agent runs at an event."""

    event: str
    command: str
    """A line for a shell."""
    matcher: str = ""
    """The tools whose calls it is for; nothing for all."""
    timeout: float | None = None
    """Seconds."""

    @property
    def text(self) -> str:
        """Return it on one line."""
        of = f" of {self.matcher}" if self.matcher else ""
        return f"{self.event}{of}: {self.command}"


class PluginDirectory(Struct, frozen=True, kw_only=True):
    """What a directory brings, by name."""

    name: str
    directory: Path
    version: str = ""
    description: str = ""
    skills: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    hooks: tuple[PluginHook, ...] = ()
    servers: Path | None = None
    """Its file of MCP servers."""


def read_plugin(directory: Path) -> PluginDirectory:
    """Read what a directory brings. Raises `ConfigError` where it brings nothing."""
    place = directory.resolve()
    manifest = _read_manifest(place)
    servers = place / ".mcp.json"
    found = PluginDirectory(
        name=manifest.name or place.name,
        directory=place,
        version=" ".join(manifest.version.split()),
        description=" ".join(manifest.description.split()),
        skills=_names(place, "skills/*/SKILL.md", lambda file: file.parent.name),
        commands=_names(place, "commands/*.md", lambda file: file.stem),
        agents=_names(place, "agents/*.md", lambda file: file.stem),
        hooks=_read_hooks(place / "hooks" / "hooks.json"),
        servers=servers if servers.is_file() else None,
    )
    if not _NAME.fullmatch(found.name):
        raise ConfigError(
            f"the plug-in in {str(place)!r} has the name {found.name[:80]!r}; it needs one of "
            "letters, digits, '_', '-' and '.'"
        )
    if not (found.skills or found.commands or found.agents or found.hooks or found.servers):
        raise ConfigError(
            f"{str(place)!r} is no plug-in: it has no skills/, commands/, agents/, "
            "hooks/hooks.json or .mcp.json; name another directory"
        )
    return found


def add_plugin(home: Path, plugin: PluginDirectory) -> None:
    """Remember a directory; one of its name is replaced."""
    known = _read(home)
    known.directories[plugin.name] = str(plugin.directory)
    write_private_json(_file(home), known)


def remove_plugin(home: Path, name: str) -> Path:
    """Forget a directory, and return it. Raises `NotFound`."""
    known = _read(home)
    if name not in known.directories:
        raise NotFound("plug-in", name, "`treadle plugin` lists them")
    gone = Path(known.directories.pop(name))
    write_private_json(_file(home), known)
    return gone


def added_plugins(home: Path) -> dict[str, Path]:
    """Return the directories that the user has added, by name."""
    return {name: Path(each) for name, each in sorted(_read(home).directories.items())}


def _file(home: Path) -> Path:
    return home / PLUGINS_FILE


def _read(home: Path) -> _Plugins:
    return read_private_json(_file(home), _Plugins)


def _read_manifest(place: Path) -> _Manifest:
    for name in _MANIFESTS:
        if (place / name).is_file():
            told = _read_json(place / name)
            texts = {key: told.get(key) for key in _Manifest.__struct_fields__}
            return _Manifest(**{key: text for key, text in texts.items() if isinstance(text, str)})
    return _Manifest()


def _read_json(file: Path) -> dict[str, Any]:
    try:
        told = msgspec.json.decode(read_bounded(file, _MOST_BYTES))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"cannot read {str(file)!r}: {error}; correct or remove it") from error
    return told if isinstance(told, dict) else {}


def _names(place: Path, pattern: str, name: Any) -> tuple[str, ...]:
    """Return the names of files that lie inside the directory, whatever links it has."""
    inside = (file for file in place.glob(pattern) if file.resolve().is_relative_to(place))
    return tuple(sorted(name(file) for file in inside if file.is_file())[:_MOST_LISTED])


def _read_hooks(file: Path) -> tuple[PluginHook, ...]:
    """Return each hook that is a command; of what has another shape, nothing."""
    if not file.is_file():
        return ()
    events = _read_json(file).get("hooks")
    found = [
        PluginHook(
            event=event,
            command=hook["command"],
            matcher=_plain(group.get("matcher"), str) or "",
            timeout=_plain(hook.get("timeout"), int | float),
        )
        for event, groups in (events.items() if isinstance(events, dict) else ())
        for group in (groups if isinstance(groups, list) else ())
        for hook in _hooks_of(group)
        if isinstance(hook, dict) and isinstance(hook.get("command"), str)
    ]
    return tuple(found[:_MOST_LISTED])


def _plain(value: object, kind: Any) -> Any:
    return value if isinstance(value, kind) and not isinstance(value, bool) else None


def _hooks_of(group: object) -> list[Any]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return hooks if isinstance(hooks, list) else []
