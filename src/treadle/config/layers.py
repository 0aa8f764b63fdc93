"""Layers: defaults, the user's file, a trusted project's, variables, flags.

Owns how they are joined: leaf by leaf, the later layer wins. Invariant: every value can
be traced to the layer, the file and the line, the variable or the flag that says it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct

from ..core.errors import ConfigError
from ..core.patterns import regex
from .check import Key, dotted, hint_of, leaves, nearest
from .environment import from_environment, variable_of
from .files import ConfigFile, project_file
from .settings import ChannelSettings, HookSettings, Price, Settings
from .trust import Trust

__all__ = ["Config", "Explained", "Kind", "Layer", "load_config"]

_SECRET = regex(r"auth|cookie|credential|dsn|key|pass|secret|token", re.IGNORECASE)

Kind: TypeAlias = Literal["default", "user", "project", "environment", "flag"]


class Layer(Struct, frozen=True):
    """What one place says."""

    kind: Kind
    leaves: Mapping[Key, Any]
    locate: Callable[[Key], str]


class Explained(Struct, frozen=True, kw_only=True):
    """A value and where it is from."""

    key: str
    value: Any
    layer: Kind
    source: str
    used: bool = True
    """False for a value that a later layer overrules."""


class Config(Struct, frozen=True):
    """The settings, and the layers they come from."""

    settings: Settings
    layers: tuple[Layer, ...]
    """The weakest first."""
    untrusted: Path | None = None
    """A project's file that was not read."""
    project: Path | None = None
    """A project's file that was."""

    def layer_of(self, key: str) -> Kind:
        """Which layer settles a plain key."""
        found = [layer.kind for layer in self.layers if (key,) in layer.leaves]
        return found[-1] if found else "default"

    def explain(self, key: str = "") -> list[Explained]:
        """Every value in force; for one `key`, also those that were overruled.

        Raises `ConfigError` for a key that does not exist.
        """
        wanted = self._wanted(key) if key else ()
        shown = [path for path in self._known() if path[: len(wanted)] == wanted]
        told = [entry for path in shown for entry in self._told(path)]
        return told if key else [entry for entry in told if entry.used]

    def _wanted(self, key: str) -> Key:
        known = {dotted(path): path for path in self._known()}
        known |= {dotted(path[:depth]): path[:depth] for path in known.values() for depth in (1, 2)}
        if key not in known and hint_of(tuple(key.split("."))) is None:
            raise ConfigError(f"there is no key {key!r}{nearest(key, known)}")
        return known.get(key, tuple(key.split(".")))

    def _known(self) -> list[Key]:
        plain = [path for path, _ in _defaults()]
        said = {path for layer in self.layers for path in layer.leaves}
        return plain + sorted(said - set(plain))

    def _told(self, path: Key) -> list[Explained]:
        said = [layer for layer in reversed(self.layers) if path in layer.leaves]
        told = [
            Explained(
                key=dotted(path),
                value=_shown(path, layer.leaves[path]),
                layer=layer.kind,
                source=layer.locate(path),
                used=index == 0,
            )
            for index, layer in enumerate(said)
        ]
        default = dict(_defaults()).get(path, UNSET)
        if default is not UNSET:
            told.append(
                Explained(
                    key=dotted(path), value=default, layer="default", source="", used=not told
                )
            )
        return told


def _shown(path: Key, value: Any) -> Any:
    """The value as it may be seen: headers, webhooks and tables of others can carry keys."""
    if path[0] in ("engines", "harnesses"):
        return _without_secrets(path[-1], value)
    if path[0] == "channels" and path[-1] == "url":
        return _host_of(value)
    return dict.fromkeys(value, "…") if path[-1] == "headers" else value


def _host_of(url: str) -> str:
    """A webhook's address without its path, which often lets someone in."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        return "…"
    return f"{parts.scheme}://{parts.hostname or ''}/…"


def _without_secrets(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {inner: _without_secrets(inner, held) for inner, held in value.items()}
    return "…" if _SECRET.search(name) and not isinstance(value, int | float) else value


def load_config(
    home: Path,
    cwd: Path,
    environ: Mapping[str, str],
    flags: Mapping[str, tuple[str, Any]] | None = None,
    *,
    trusting: bool = False,
) -> Config:
    """Read and join the layers; `flags` are values by key, each with the flag's name.

    With `trusting`, a project's file is read though nobody trusts it yet: to look at.

    Raises `ConfigError`.
    """
    user, project = home / "config.toml", project_file(cwd)
    trusted = project not in (None, user) and (trusting or Trust(home).holds(project))
    layers = [
        *_of_file("user", user),
        *(_of_file("project", project) if project and trusted else ()),
        Layer("environment", from_environment(environ), lambda key: variable_of(key) or ""),
        _of_flags(flags or {}),
    ]
    kept_out = project if project is not None and project != user and not trusted else None
    return Config(_joined(layers), tuple(layers), kept_out, project if trusted else None)


def _of_file(kind: Kind, path: Path) -> tuple[Layer, ...]:
    file = ConfigFile.read(path)
    if file is None:
        return ()
    return (Layer(kind, dict(leaves(file.table, file.locate)), file.locate),)


def _of_flags(flags: Mapping[str, tuple[str, Any]]) -> Layer:
    def named(key: Key) -> str:
        return flags[key[0]][0]

    table = {key: value for key, (_, value) in flags.items()}
    return Layer("flag", dict(leaves(table, named)), named)


def _joined(layers: list[Layer]) -> Settings:
    table: dict[str, Any] = {}
    for layer in layers:
        for path, value in layer.leaves.items():
            place = table
            for name in path[:-1]:
                place = place.setdefault(name, {})
            place[path[-1]] = value
    try:
        return msgspec.convert(table, Settings)
    except msgspec.ValidationError as error:
        # Single values were checked before: only a field that a table lacks is left.
        raise ConfigError(f"{_incomplete(table)} is not complete: {error}; add it") from error


def _incomplete(table: dict[str, Any]) -> str:
    required = (("channels", ChannelSettings), ("hooks", HookSettings), ("prices", Price))
    for section, kind in required:
        for name, value in table.get(section, {}).items():
            try:
                msgspec.convert(value, kind)
            except msgspec.ValidationError:
                return dotted((section, name))
    raise AssertionError(table)


def _defaults() -> list[tuple[Key, Any]]:
    """The plain keys with their defaults; tables of named things have none."""
    found: list[tuple[Key, Any]] = []
    for field in msgspec.structs.fields(Settings):
        if isinstance(field.default, Struct):
            found += [
                ((field.name, k), v) for k, v in msgspec.structs.asdict(field.default).items()
            ]
        elif hint_of((field.name, "·")) is None:
            found.append(((field.name,), field.default))
    return found
