"""Validation: a table of a configuration becomes single values, each of its proper type.

Owns the messages about a wrong key or value. Invariant: a message names the place, the
key, what is accepted and, for an unknown key, the most similar one that exists.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct, UnsetType

from ..core.choices import nearest
from ..core.errors import ConfigError
from ..core.typed import convert
from .settings import Settings

__all__ = ["Key", "key_text", "suggestion", "type_of", "valid_values"]

Key: TypeAlias = tuple[str, ...]
"""The names of the tables around a value, and its own."""

_LONGEST_VALUE = 200
"""Characters of a wrong value that a message repeats."""

_TYPE_NAMES: dict[Any, str] = {
    bool: "true or false",
    str: "a string",
    int: "a whole number",
    float: "a number",
    tuple[str, ...]: "a list of strings",
    dict[str, str]: "a table of strings",
}


def valid_values(
    table: Mapping[str, Any], locate: Callable[[Key], str], hint: Any = Settings, above: Key = ()
) -> Iterator[tuple[Key, Any]]:
    """Yield the values of `table` with their keys. Raises `ConfigError` for a wrong one."""
    for name, value in table.items():
        key = (*above, name)
        kind = _member(hint, name)
        if kind is None:
            known = get_type_hints(hint)
            raise ConfigError(
                f"{locate(key)}: key {key_text(key)!r} is unknown{suggestion(name, known)} "
                f"(accepted: {', '.join(sorted(known))})"
            )
        if _is_table(kind):
            if not isinstance(value, dict):
                raise ConfigError(
                    f"{locate(key)}: {key_text(key)!r} must be a table, not {_short_repr(value)}"
                )
            yield from valid_values(value, locate, kind, key)
        else:
            yield key, _convert(value, kind, key, locate)


def type_of(key: Key) -> Any:
    """Return the type of the value under `key`; None when there is no such key."""
    hint: Any = Settings
    for name in key:
        hint = _member(hint, name)
        if hint is None:
            return None
    return hint


def suggestion(name: str, known: Mapping[str, Any]) -> str:
    """Return a hint at the name that was probably meant, or an empty text."""
    close = nearest(name, known)
    return f"; did you mean {close!r}?" if close else ""


def key_text(key: Key) -> str:
    """Return a key as it is written in TOML."""
    return ".".join(part if part.replace("-", "_").isidentifier() else f'"{part}"' for part in key)


def _member(hint: Any, name: str) -> Any:
    if get_origin(hint) is dict:
        return get_args(hint)[1]
    return _hints(hint).get(name) if _is_struct(hint) else None


@cache
def _hints(struct: type[Struct]) -> dict[str, Any]:
    return get_type_hints(struct, include_extras=True)


def _is_table(hint: Any) -> bool:
    """Return whether a type has keys of its own: structs, tables of those and of anything."""
    if get_origin(hint) is not dict:
        return _is_struct(hint)
    inner = get_args(hint)[1]
    return inner is Any or _is_table(inner)


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Struct)


def _convert(value: Any, kind: Any, key: Key, locate: Callable[[Key], str]) -> Any:
    try:
        return convert(value, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"{locate(key)}: {key_text(key)!r} is {_short_repr(value)}; "
            f"accepted: {_describe_type(kind)}"
        ) from error


def _short_repr(value: object) -> str:
    """Return a value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _describe_type(hint: Any) -> str:
    if hint in _TYPE_NAMES:
        return _TYPE_NAMES[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return ", ".join(repr(value) for value in args)
    if origin in (types.UnionType, Union):
        absent = (type(None), UnsetType)
        return " or ".join(_describe_type(arg) for arg in args if arg not in absent)
    if origin is tuple:
        return _describe_list(args[0])
    assert origin is Annotated, hint
    kind, meta = args[:2]
    return f"{_describe_type(kind)}{_describe_bound(meta)}"


def _describe_list(kind: Any) -> str:
    meta = get_args(kind)[1:]
    return (
        f"a list of {meta[0].description}" if meta and meta[0].description else "a list of strings"
    )


def _describe_bound(meta: Meta) -> str:
    if meta.gt is not None:
        return f" above {meta.gt}" + (f" and at most {meta.le}" if meta.le is not None else "")
    if meta.ge is not None:
        most = f" and at most {meta.le}" if meta.le is not None else ""
        return f" of at least {meta.ge}{most}"
    return " that is not empty" if meta.min_length else ""
