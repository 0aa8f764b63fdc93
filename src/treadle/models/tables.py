"""Reading model tables: the shape of a catalog file, and what to say when it is wrong.

Owns the check of every key and value before it becomes part of a profile.
Invariant: a message names the file, the key, what is accepted and the nearest
name that exists.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

from ..core.errors import ConfigError
from ..core.files import read_bounded
from ..core.text import TruncationPolicy
from .profile import ModelProfile

__all__ = [
    "MOST_BYTES",
    "Table",
    "check_fields",
    "check_sections",
    "nearest_hint",
    "parse_toml",
    "read_file",
]

MOST_BYTES = 4 << 20
"""The largest file that is read."""

Table: TypeAlias = Mapping[str, Any]
"""Fields of a profile by name, checked or about to be."""

_SECTIONS = ("providers", "fallback", "models")
_DERIVED = frozenset({"slug", "entry", "known"})
_HINTS = get_type_hints(ModelProfile, include_extras=True)
_FIELDS = {name: hint for name, hint in _HINTS.items() if name not in _DERIVED}


def parse_toml(data: bytes, source: str) -> dict[str, Any]:
    """The sections of a catalog file, each checked."""
    import tomllib

    try:
        sections = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
        raise ConfigError(f"{source} is not valid TOML: {error}; correct or remove it") from error
    return check_sections(sections, source)


def check_sections(sections: Table, source: str) -> dict[str, Any]:
    """The sections of a catalog, with every value in its proper type. Raises `ConfigError`."""
    _known(sections, _SECTIONS, f"{source}: section")
    models = {
        name: _entry(fields, f"{source}: models.{name!r}")
        for name, fields in _table(sections.get("models", {}), f"{source}: models").items()
    }
    fallback = _table(sections.get("fallback", {}), f"{source}: fallback")
    return {
        "providers": _providers(sections.get("providers", []), source),
        "fallback": check_fields(fallback, f"{source}: fallback"),
        "models": models,
    }


def _entry(fields: Any, where: str) -> dict[str, Any]:
    own = {key: value for key, value in _table(fields, where).items() if key != "like"}
    return {**_like(fields, where), **check_fields(own, where)}


def check_fields(fields: Table, source: str) -> dict[str, Any]:
    """`fields` with every value in its proper type. Raises `ConfigError`."""
    _known(fields, _FIELDS, f"{source}: key")
    return {name: _value(name, value, source) for name, value in fields.items()}


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """A hint at the name that was probably meant, or nothing."""
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def read_file(path: Path) -> bytes | None:
    """The bytes of a user's file; None when there is none."""
    try:
        return read_bounded(path, MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror}; check it") from error


def _known(given: Iterable[str], known: Iterable[str], what: str) -> None:
    names = sorted(known)
    for name in given:
        if name not in names:
            hint = nearest_hint(name, names)
            raise ConfigError(f"{what} {name!r} is unknown{hint} (accepted: {', '.join(names)})")


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table, not {value!r}")
    return value


def _like(fields: Table, where: str) -> dict[str, str]:
    like = fields.get("like")
    if like is not None and not isinstance(like, str):
        raise ConfigError(f"{where}: 'like' is {like!r}; accepted: the name of an entry")
    return {} if like is None else {"like": like}


def _providers(value: Any, source: str) -> tuple[str, ...]:
    try:
        return msgspec.convert(value, tuple[str, ...])
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{source}: 'providers' is {value!r}; accepted: a list of names"
        ) from error


def _value(name: str, value: Any, source: str) -> Any:
    try:
        return msgspec.convert(value, _FIELDS[name])
    except msgspec.ValidationError as error:
        accepted = _accepted(_FIELDS[name])
        raise ConfigError(f"{source}: {name!r} is {value!r}; accepted: {accepted}") from error


_WORDS: dict[Any, str] = {
    bool: "true or false",
    str: "a string",
    int: "a whole number",
    tuple[str, ...]: "a list of strings",
    TruncationPolicy: "a table { mode = 'bytes' or 'tokens', limit = a whole number }",
}


def _accepted(hint: Any) -> str:
    if hint in _WORDS:
        return _WORDS[hint]
    if get_origin(hint) is Literal:
        return ", ".join(repr(value) for value in get_args(hint))
    if isinstance(hint, types.UnionType) or str(get_origin(hint)) == "typing.Union":
        return " or ".join(_accepted(arg) for arg in get_args(hint) if arg is not type(None))
    if get_origin(hint) is Annotated:
        kind, meta = get_args(hint)[:2]
        upper = f" and at most {meta.le}" if meta.le is not None else ""
        return f"{_accepted(kind)} above {meta.gt}{upper}"
    return str(hint)
