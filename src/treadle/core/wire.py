"""How wire values keep unknown fields and types.

Owns the codec under every struct that crosses a wire. Known shapes go through
msgspec at full speed. A field, part or type from a newer server sends that one
value through the careful path, which keeps its JSON byte for byte: unknown fields
in `extra`, unknown types whole in an `Unknown`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cached_property, reduce
from operator import or_
from typing import Any, Generic, TypeAlias, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import Raw, Struct, field

from .typed import decode_json, json_decoder

__all__ = [
    "NULL",
    "UNREADABLE",
    "Codec",
    "Json",
    "Unknown",
    "Wire",
    "empty",
    "is_nested_deeper",
    "json_bytes",
    "null",
]

Json: TypeAlias = Raw
"""Any JSON value, kept as the bytes it came in.

msgspec cannot read `Json | None`; where one may be missing, use `Json | UnsetType`.
"""

NULL: Json = Raw(b"null")

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What reading foreign JSON raises: it is no JSON, it is no text, or it nests without end."""

T = TypeVar("T")

_EXTRA = "·extra"
_RARE = '"·'.encode()
_RARE_SPELLINGS = (_RARE, b'"\\u00b7', b'"\\u00B7')

_BRACKETS = rb'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]'

_encode = msgspec.json.Encoder().encode
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_elements = msgspec.json.Decoder(list[Raw]).decode


def null() -> None:
    """Return the default of a nullable field that is always written.

    msgspec omits fields that equal a plain default, never those of a factory.
    """


def empty() -> tuple[()]:
    """Return the default of an array that is written even when it is empty."""
    return ()


def json_bytes(value: object) -> bytes:
    """Encode `value` as compact JSON, fields in their declared order."""
    return _encode(value)


def is_nested_deeper(data: bytes, most: int) -> bool:
    """Return whether brackets in `data` nest deeper than `most`, without recursion."""
    if data.count(b"[") + data.count(b"{") <= most:
        return False
    depth = 0
    for found in re.finditer(_BRACKETS, data):
        mark = found[0][:1]
        if mark in b"[{":
            depth += 1
            if depth > most:
                return True
        elif mark in b"]}":
            depth -= 1
    return False


class Wire(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of wire structs: absent optional fields stay absent, unknown ones are kept.

    Encode and decode through the family's `Codec`; plain msgspec would show `extra`.
    """

    extra: dict[str, Raw] | None = field(default=None, name=_EXTRA)


class Unknown(Struct, frozen=True, tag="·unknown"):
    """A value of a type this version does not know, verbatim."""

    payload: Raw

    @property
    def type(self) -> str:
        """The type it claims, or ``""``."""
        return _claimed_type(self.payload)


class Codec(Generic[T]):
    """Reads and writes one family of tagged structs without losing anything.

    `nested` names the fields whose values belong to another family, `aliases`
    the older spellings of a tag.
    """

    def __init__(
        self,
        *structs: type[Any],
        nested: dict[str, Codec[Any]] | None = None,
        aliases: dict[str, str] | None = None,
    ) -> None:
        self._structs = {struct.__struct_config__.tag: struct for struct in structs}
        self._fields: dict[type[Any], dict[str, msgspec.structs.FieldInfo]] = {}
        self._nested = nested or {}
        for alias, tag in (aliases or {}).items():
            self._structs[alias] = self._structs[tag]

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        # At first use: a decoder looks at every field of every struct of the family.
        return json_decoder(reduce(or_, dict.fromkeys(self._structs.values())))

    def decode(self, data: bytes | Raw) -> T:
        """Decode the struct in `data`; never fails on well-formed JSON."""
        data = bytes(data)
        # Names that only we give must not be accepted as ours when they come from outside.
        if not any(spelling in data for spelling in _RARE_SPELLINGS):
            with suppress(msgspec.ValidationError):
                return cast("T", self._decoder.decode(data))
        return cast("T", self._decode_carefully(Raw(data)))

    def encode(self, value: T) -> bytes:
        """Encode `value` as compact JSON: its fields in order, then its extra ones."""
        if isinstance(value, Unknown):
            return bytes(value.payload)
        data = _encode(value)
        return self._encode_carefully(value, data) if _RARE in data else data

    def _decode_carefully(self, data: Raw) -> Any:
        struct = self._structs.get(_claimed_type(data))
        if struct is None:
            return Unknown(data)
        known: dict[str, Any] = {}
        extra: dict[str, Raw] = {}
        try:
            for name, raw in _members(data).items():
                if name == "type":
                    continue
                if (spec := self._fields_of(struct).get(name)) is None:
                    extra[name] = raw.copy()
                else:
                    known[spec.name] = self._decode_field(spec, raw)
            return struct(**known, extra=extra or None)
        except (msgspec.ValidationError, TypeError):
            # A known type in a shape we cannot read is as foreign as an unknown type.
            return Unknown(data)

    def _fields_of(self, struct: type[Any]) -> dict[str, msgspec.structs.FieldInfo]:
        if struct not in self._fields:
            self._fields[struct] = _known_fields(struct)
        return self._fields[struct]

    def _decode_field(self, spec: msgspec.structs.FieldInfo, raw: Raw) -> Any:
        codec = self._nested.get(spec.encode_name)
        first = bytes(memoryview(raw)[:1])
        if codec is not None and first == (b"[" if _holds_array(spec.type) else b"{"):
            if first == b"{":
                return codec.decode(raw)
            return tuple(codec.decode(element) for element in _elements(raw))
        return decode_json(raw, spec.type)

    def _encode_carefully(self, value: T, data: bytes) -> bytes:
        members = _members(data)
        members.pop(_EXTRA, None)
        for spec in self._fields_of(type(value)).values():
            codec = self._nested.get(spec.encode_name)
            if codec is None or spec.encode_name not in members:
                continue
            inner = getattr(value, spec.name)
            if isinstance(inner, tuple):
                members[spec.encode_name] = Raw(b"[%s]" % b",".join(map(codec.encode, inner)))
            elif isinstance(inner, Struct):
                members[spec.encode_name] = Raw(codec.encode(inner))
        return _encode({**members, **(getattr(value, "extra", None) or {})})


def _known_fields(struct: type[Any]) -> dict[str, msgspec.structs.FieldInfo]:
    fields = msgspec.structs.fields(struct)
    return {spec.encode_name: spec for spec in fields if spec.encode_name != _EXTRA}


def _holds_array(annotation: Any) -> bool:
    return any(get_origin(each) is tuple for each in (annotation, *get_args(annotation)))


class _Tagged(Struct):
    type: str = ""


def _claimed_type(data: Raw) -> str:
    try:
        return decode_json(data, _Tagged).type
    except UNREADABLE:
        return ""
