"""Typed values from plain ones and from JSON, also in several threads at once.

Owns the first use of a type. msgspec works out what it must know of a struct when it is
first decoded, and a thread that decodes it meanwhile ends the process. Invariant: that is done
for one type at a time. Whatever may run in a thread decodes here, or with a decoder that its
module has made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, overload

import msgspec

__all__ = ["convert", "decode_json", "json_decoder"]

T = TypeVar("T")

Hook: TypeAlias = Callable[[type, Any], Any]
"""Makes a value of a type that msgspec does not know."""

_preparing = threading.Lock()
_prepared: set[Any] = set()


@overload
def convert(value: Any, kind: type[T], *, dec_hook: Hook | None = ...) -> T: ...
@overload
def convert(value: Any, kind: Any, *, dec_hook: Hook | None = ...) -> Any: ...
def convert(value: Any, kind: Any, *, dec_hook: Hook | None = None) -> Any:
    """Return `value` as a `kind`. Raises `msgspec.ValidationError`."""
    _prepare(kind)
    return msgspec.convert(value, kind, dec_hook=dec_hook)  # noqa: TID251 - this is the place


@overload
def decode_json(data: bytes | str, kind: type[T]) -> T: ...
@overload
def decode_json(data: bytes | str, kind: Any) -> Any: ...
def decode_json(data: bytes | str, kind: Any) -> Any:
    """Return the value of a JSON document as a `kind`. Raises `msgspec.DecodeError`."""
    _prepare(kind)
    return msgspec.json.decode(data, type=kind)


@overload
def json_decoder(kind: type[T]) -> msgspec.json.Decoder[T]: ...
@overload
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]: ...
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder that is made later than its module: at first use, or for each call."""
    with _preparing:
        return msgspec.json.Decoder(kind)


def _prepare(kind: Any) -> None:
    if kind not in _prepared:
        json_decoder(kind)
        _prepared.add(kind)
