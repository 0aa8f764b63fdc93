"""What the far end uses of msgspec, in plain Python.

Owns the module that is called `msgspec` in the archive that is sent to other machines, where
nothing can be installed. Invariants: it needs the standard library only; the same code of ours
runs on both, and what is decoded has been checked against its type. It is made to be correct
for a few messages a second, not to be fast.
"""

from __future__ import annotations

import base64
import binascii
import inspect
import json as _json
import sys
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, Literal, Union, dataclass_transform, get_args, get_origin

__all__ = [
    "UNSET",
    "DecodeError",
    "Raw",
    "Struct",
    "UnsetType",
    "ValidationError",
    "field",
    "json",
    "structs",
]

_NOTHING: Any = object()
_TAG = "type"


class DecodeError(ValueError):
    """What was read is no JSON."""


class ValidationError(DecodeError):
    """What was read is JSON, but not what was expected."""


class UnsetType:
    """The type of `UNSET`."""


UNSET = UnsetType()


class Raw(bytes):
    """JSON that stays as it is."""

    __slots__ = ()


class _Field:
    __slots__ = ("default", "default_factory")

    def __init__(self, default: Any, default_factory: Any) -> None:
        self.default, self.default_factory = default, default_factory

    def make(self) -> Any:
        return self.default if self.default_factory is _NOTHING else self.default_factory()


def field(*, default: Any = _NOTHING, default_factory: Any = _NOTHING, name: str = "") -> Any:  # noqa: ARG001
    """Declare a field with a default."""
    return _Field(default, default_factory)


class _Config(typing.NamedTuple):
    tag: str | None
    frozen: bool


@dataclass_transform(field_specifiers=(field,))
class _StructMeta(type):
    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        frozen: bool = False,
        tag: str | None = None,
        kw_only: bool = False,
        **_others: Any,
    ) -> Any:
        made: Any = super().__new__(cls, name, bases, namespace)
        declared = inspect.get_annotations(made)
        names = [each for each, kind in declared.items() if not str(kind).startswith("ClassVar")]
        own = {each: _as_field(namespace.get(each, _NOTHING)) for each in names}
        for each in names:
            if each in namespace:
                delattr(made, each)
        inherited: Mapping[str, _Field] = getattr(made, "__fields__", {})
        made.__fields__ = {**inherited, **own}
        made.__struct_fields__ = tuple(made.__fields__)
        positional = () if kw_only else tuple(own)
        before: tuple[str, ...] = getattr(made, "__match_args__", ())
        setattr(made, "__match_args__", (*before, *positional))  # noqa: B010 - for the type checker
        made.__struct_config__ = _Config(tag, frozen)
        return made

    def __init__(cls, name: str, bases: Any, namespace: Any, **_options: Any) -> None:
        super().__init__(name, bases, namespace)


def _as_field(given: Any) -> _Field:
    return given if isinstance(given, _Field) else _Field(given, _NOTHING)


class Struct(metaclass=_StructMeta):
    """A value with named fields."""

    __fields__: ClassVar[Mapping[str, _Field]]
    __struct_fields__: ClassVar[tuple[str, ...]]
    __struct_config__: ClassVar[_Config]

    def __init__(self, *args: Any, **given: Any) -> None:
        kind = type(self)
        if len(args) > len(kind.__match_args__):
            raise TypeError(f"{kind.__name__} takes fewer values")
        values = {**dict(zip(kind.__match_args__, args, strict=False)), **given}
        for name, declared in kind.__fields__.items():
            value = values.pop(name, _NOTHING)
            value = declared.make() if value is _NOTHING else value
            if value is _NOTHING:
                raise TypeError(f"{kind.__name__} misses its field {name!r}")
            object.__setattr__(self, name, value)
        if values:
            raise TypeError(f"{kind.__name__} has no field {next(iter(values))!r}")
        after = getattr(self, "__post_init__", None)
        if after is not None:
            after()

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__struct_config__.frozen:
            raise AttributeError(f"immutable type: {type(self).__name__!r}")
        object.__setattr__(self, name, value)

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__struct_fields__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct) or type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), *self._values()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__)
        return f"{type(self).__name__}({shown})"


def replace(value: Any, /, **changes: Any) -> Any:
    """Return `value` with other fields."""
    kept = {name: getattr(value, name) for name in value.__struct_fields__}
    return type(value)(**{**kept, **changes})


# JSON, with the types that structs declare.

Hook = Callable[[Any], Any]


def _plain(value: Any, hook: Hook | None) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {key: _plain(each, hook) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each, hook) for each in value]
        case Struct():
            tag = value.__struct_config__.tag
            fields = {n: _plain(getattr(value, n), hook) for n in value.__struct_fields__}
            return fields if tag is None else {_TAG: tag, **fields}
        case _ if hook is not None:
            return _plain(hook(value), None)
        case _:
            raise TypeError(f"{type(value).__name__!r} is no JSON")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _convert(value: Any, kind: Any, hook: Any) -> Any:
    if kind is Any:
        return value
    if get_origin(kind) is not None:
        return _generic(value, kind, hook)
    if issubclass(kind, Struct):
        return _struct(value, kind, hook)
    if kind is bytes and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise ValidationError("expected base64") from error
    if kind in (bool, int, str, type(None)):
        return _expect(type(value) is kind, value, kind)
    if hook is not None and isinstance(value, str):
        return hook(kind, value)
    raise ValidationError(f"expected {kind}, got {type(value).__name__}")


def _generic(value: Any, kind: Any, hook: Any) -> Any:
    origin, of = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(value, of, hook)
    if origin is Literal:
        return _expect(value in of, value, kind)
    if origin is tuple and isinstance(value, list):
        return tuple(_convert(each, of[0], hook) for each in value)
    if origin is dict and isinstance(value, dict):
        return {key: _convert(each, of[1], hook) for key, each in value.items()}
    raise ValidationError(f"expected {kind}, got {type(value).__name__}")


def _expect(fits: bool, value: Any, kind: Any) -> Any:
    if not fits:
        raise ValidationError(f"expected {kind}, got {type(value).__name__}")
    return value


def _one_of(value: Any, kinds: tuple[Any, ...], hook: Any) -> Any:
    if value is None and type(None) in kinds:
        return None
    structs_ = [each for each in kinds if isinstance(each, type) and issubclass(each, Struct)]
    if structs_ and isinstance(value, dict):
        by_tag = {each.__struct_config__.tag: each for each in structs_}
        chosen = by_tag.get(value.get(_TAG))
        if chosen is None:
            raise ValidationError(f"unknown {_TAG!r} {value.get(_TAG)!r}")
        return _struct(value, chosen, hook)
    for each in kinds:
        try:
            return _convert(value, each, hook)
        except ValidationError:
            continue
    raise ValidationError(f"expected one of {kinds}, got {type(value).__name__}")


def _struct(value: Any, kind: Any, hook: Any) -> Any:
    _expect(isinstance(value, dict), value, kind)
    hints = _hints(kind)
    given = {n: _convert(value[n], hints[n], hook) for n in kind.__struct_fields__ if n in value}
    try:
        return kind(**given)
    except TypeError as error:
        raise ValidationError(str(error)) from error


class _Encoder:
    def __init__(self, *, enc_hook: Hook | None = None) -> None:
        self._hook = enc_hook

    def encode(self, value: Any) -> bytes:
        return _json.dumps(_plain(value, self._hook), separators=(",", ":")).encode()


class _Decoder:
    def __init__(self, kind: Any = Any, *, dec_hook: Any = None) -> None:
        self._kind, self._hook = kind, dec_hook

    def decode(self, data: bytes | str) -> Any:
        try:
            value = _json.loads(data)
        except ValueError as error:
            raise DecodeError(str(error)) from error
        return _convert(value, self._kind, self._hook)


def _decode(data: bytes | str, *, type: Any = Any) -> Any:  # noqa: A002 - msgspec's name
    return _Decoder(type).decode(data)


def _module(name: str, **members: Any) -> types.ModuleType:
    made = types.ModuleType(f"{__name__}.{name}")
    made.__dict__.update(members)
    sys.modules[made.__name__] = made
    return made


structs = _module("structs", replace=replace, FieldInfo=_Field)
json = _module(
    "json",
    Encoder=_Encoder,
    Decoder=_Decoder,
    encode=_Encoder().encode,
    decode=_decode,
)
