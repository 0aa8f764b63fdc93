"""Layers: defaults, the user's file, a trusted project's, environment variables, flags.

Owns how they are joined, value by value: the later layer wins. Invariants: every value can
be traced to the layer, the file and the line, the variable or the flag that sets it; and a
variable that is nearly one of ours is an error, while others are ignored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args, get_type_hints
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Struct

from ..core.choices import nearest
from ..core.errors import ConfigError, InvalidOption
from ..core.store_address import shown_address
from ..core.typed import convert
from .config_file import ConfigFile, find_project_file
from .settings import ChannelSettings, HookSettings, Price, Settings
from .trusted_files import TrustStore
from .validation import Key, key_text, suggestion, type_of, valid_values

__all__ = [
    "Config",
    "ConfigLayer",
    "ExplainedSetting",
    "LayerKind",
    "environment_values",
    "host_of",
    "load_config",
]

LayerKind: TypeAlias = Literal["default", "user", "project", "environment", "flag"]

_SENSITIVE_NAME = r"(?i)auth|cookie|credential|dsn|key|pass|secret|token"
_PREFIX = "TREADLE_"
_TABLES = (
    "agents",
    "agents_md",
    "compaction",
    "skills",
    "limits",
    "codex",
    "models",
    "providers",
    "prices",
    "hooks",
    "channels",
    "engines",
    "harnesses",
    "mcp",
)
_VARIABLES = {
    _PREFIX + name.upper(): name for name in Settings.__struct_fields__ if name not in _TABLES
}
"""The environment variables of Treadle, and the keys that they set."""
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_ALIKE = 0.85
_MOST_DIGITS = 18
"""Digits of a number; a longer one stays a text, which validation refuses."""


class ConfigLayer(Struct, frozen=True):
    """The values that one place sets."""

    kind: LayerKind
    values: Mapping[Key, Any]
    locate: Callable[[Key], str]


class ExplainedSetting(Struct, frozen=True, kw_only=True):
    """A value and where it is from."""

    key: str
    value: Any
    layer: LayerKind
    source: str
    used: bool = True
    """False for a value that a later layer replaces."""


class Config(Struct, frozen=True):
    """The settings, and the layers they come from."""

    settings: Settings
    layers: tuple[ConfigLayer, ...]
    """The weakest first."""
    untrusted: Path | None = None
    """A project's file that was not read."""
    project: Path | None = None
    """A project's file that was read."""

    def layer_of(self, key: str) -> LayerKind:
        """Return the layer that sets a plain key."""
        found = [layer.kind for layer in self.layers if (key,) in layer.values]
        return found[-1] if found else "default"

    def explain(self, key: str = "") -> list[ExplainedSetting]:
        """Return every value in force; for one `key`, also the values that were replaced.

        Raises `ConfigError` for a key that does not exist.
        """
        wanted = self._find_key(key) if key else ()
        paths = [path for path in self._known_keys() if path[: len(wanted)] == wanted]
        found = [each for path in paths for each in self._explain_key(path)]
        return found if key else [each for each in found if each.used]

    def _find_key(self, key: str) -> Key:
        known = {key_text(path): path for path in self._known_keys()}
        tables = [path[:depth] for path in known.values() for depth in (1, 2)]
        known |= {key_text(path): path for path in tables}
        if key not in known and type_of(tuple(key.split("."))) is None:
            raise ConfigError(f"there is no key {key!r}{suggestion(key, known)}")
        return known.get(key, tuple(key.split(".")))

    def _known_keys(self) -> list[Key]:
        plain = [path for path, _ in _defaults()]
        configured = {path for layer in self.layers for path in layer.values}
        return plain + sorted(configured - set(plain))

    def _explain_key(self, path: Key) -> list[ExplainedSetting]:
        layers = [layer for layer in reversed(self.layers) if path in layer.values]
        found = [
            ExplainedSetting(
                key=key_text(path),
                value=_without_secrets(path, layer.values[path]),
                layer=layer.kind,
                source=layer.locate(path),
                used=index == 0,
            )
            for index, layer in enumerate(layers)
        ]
        default = dict(_defaults()).get(path, UNSET)
        if default is not UNSET:
            found.append(
                ExplainedSetting(
                    key=key_text(path), value=default, layer="default", source="", used=not found
                )
            )
        return found


def load_config(
    home: Path,
    cwd: Path,
    environ: Mapping[str, str],
    flags: Mapping[str, tuple[str, Any]] | None = None,
    *,
    trusting: bool = False,
) -> Config:
    """Read and join the layers; `flags` are values by key (``limits.steps``) with their flags.

    With `trusting`, a project's file is read though nobody trusts it yet: to show it.

    Raises `ConfigError`.
    """
    user, project = home / "config.toml", find_project_file(cwd)
    if project == user:
        project = None
    trust = TrustStore(home)
    is_trusted = project is not None and (trusting or trust.is_trusted(project))
    named = ConfigFile.read(project) if project and is_trusted else None
    if project and named and not trusting and not trust.is_trusted(project, named.text.encode()):
        # It was replaced after the first look; what counts is what was read.
        is_trusted, named = False, None
    layers = [
        *_file_layer("user", ConfigFile.read(user)),
        *_project_layer(named),
        ConfigLayer("environment", environment_values(environ), _variable_of),
        _flag_layer(flags or {}),
    ]
    return Config(
        _join(layers),
        tuple(layers),
        untrusted=None if is_trusted else project,
        project=project if is_trusted else None,
    )


def environment_values(environ: Mapping[str, str]) -> dict[Key, Any]:
    """Return the values that environment variables set. Raises `ConfigError`."""
    _check_spelling(environ)
    texts = {
        name: environ[variable] for variable, name in _VARIABLES.items() if variable in environ
    }
    table = {name: _parse_variable(name, text) for name, text in texts.items() if text}
    return dict(valid_values(table, _variable_of))


def _variable_of(key: Key) -> str:
    return _PREFIX + key[0].upper()


def _check_spelling(environ: Mapping[str, str]) -> None:
    for name in environ:
        if name.startswith(_PREFIX) and name not in _VARIABLES and name != "TREADLE_HOME":
            close = nearest(name, _VARIABLES, alike=_ALIKE)
            if close:
                raise ConfigError(
                    f"the variable {name!r} sets nothing; did you mean {close!r}? Unset it"
                )


def _parse_variable(name: str, text: str) -> Any:
    """Return `text` as the type of its key; validation refuses what does not fit."""
    hint = get_type_hints(Settings)[name]
    kinds = {hint, *get_args(hint)}
    if bool in kinds and text.lower() in (*_TRUE, *_FALSE):
        return text.lower() in _TRUE
    if int in kinds and text.isdecimal() and len(text) <= _MOST_DIGITS:
        return int(text)
    if name in ("fallbacks", "network"):  # names of models have colons in them
        return [part for part in text.split(",") if part]
    if hint == tuple[str, ...]:
        return [part for part in text.split(os.pathsep) if part]
    return text


def _file_layer(kind: LayerKind, file: ConfigFile | None) -> tuple[ConfigLayer, ...]:
    if file is None:
        return ()
    return (ConfigLayer(kind, dict(valid_values(file.table, file.locate)), file.locate),)


def _project_layer(file: ConfigFile | None) -> tuple[ConfigLayer, ...]:
    layers = _file_layer("project", file)
    for layer in layers:
        if ("store",) in layer.values:
            raise ConfigError(
                f"{layer.locate(('store',))}: where your threads live is not a project's to say; "
                "set 'store' in your own config.toml, or TREADLE_STORE"
            )
    return layers


def _flag_layer(flags: Mapping[str, tuple[str, Any]]) -> ConfigLayer:
    def flag_name(key: Key) -> str:
        return names.get(key) or names[key[:1]]

    names: dict[Key, str] = {}
    table: dict[str, Any] = {}
    for name, (flag, value) in flags.items():
        *tables, last = name.split(".")
        place = table
        for each in tables:
            place = place.setdefault(each, {})
        place[last], names[*tables, last] = value, flag
    try:
        values = dict(valid_values(table, flag_name))
    except ConfigError as error:
        raise InvalidOption(str(error)) from error
    return ConfigLayer("flag", values, flag_name)


def _join(layers: list[ConfigLayer]) -> Settings:
    table: dict[str, Any] = {}
    for layer in layers:
        for path, value in layer.values.items():
            place = table
            for name in path[:-1]:
                place = place.setdefault(name, {})
            place[path[-1]] = value
    try:
        return convert(table, Settings)
    except msgspec.ValidationError as error:
        # Single values are valid: the only other error is a field that a table lacks.
        raise ConfigError(f"{_incomplete_table(table)} is not complete: {error}; add it") from error


def _incomplete_table(table: dict[str, Any]) -> str:
    required = (("channels", ChannelSettings), ("hooks", HookSettings), ("prices", Price))
    for section, kind in required:
        for name, value in table.get(section, {}).items():
            try:
                convert(value, kind)
            except msgspec.ValidationError:
                return key_text((section, name))
    raise AssertionError(table)


def _defaults() -> list[tuple[Key, Any]]:
    """Return the plain keys with their defaults; tables of named things have none."""
    found: list[tuple[Key, Any]] = []
    for field in msgspec.structs.fields(Settings):
        if isinstance(field.default, Struct):
            found += [
                ((field.name, k), v)
                for k, v in msgspec.structs.asdict(field.default).items()
                if type_of((field.name, k, "·")) is None
            ]
        elif type_of((field.name, "·")) is None:
            found.append(((field.name,), field.default))
    return found


def _without_secrets(path: Key, value: Any) -> Any:
    """Return the value as it may be shown: headers, webhooks and plug-ins' tables hold keys."""
    if path[0] in ("engines", "harnesses"):
        return _without_secret_names(path[-1], value)
    if path == ("store",):
        return shown_address(value)
    if path[0] == "channels" and path[-1] == "url":
        return host_of(value)
    if path[0] == "mcp" and path[-1] == "url":
        return host_of(value)
    hidden = path[-1] == "headers" or (path[0] == "mcp" and path[-1] == "env")
    return dict.fromkeys(value, "…") if hidden else value


def _without_secret_names(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {inner: _without_secret_names(inner, held) for inner, held in value.items()}
    return "…" if re.search(_SENSITIVE_NAME, name) and not isinstance(value, int | float) else value


def host_of(url: str) -> str:
    """Return a webhook's address without its path, which is often a secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "…"
    return f"{parts.scheme}://{parts.hostname or ''}/…"
