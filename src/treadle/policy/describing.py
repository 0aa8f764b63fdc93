"""Describing: what a message holds, in lines of text.

Owns how media are named where only text can be told, and how much of foreign data is
shown. Invariant: the bytes of a data URI never stand in a description.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ..core.items import InputAudio, InputImage, Part, Refusal, Unknown

__all__ = ["describe_parts"]

_LONGEST = 300
_LONGEST_DATA = 1_000
_DEEPEST, _MOST_ITEMS, _MOST_KEYS = 4, 16, 32
_INLINE = r"(?i)data:([\w.+-]+/[\w.+-]+)[\w;=.+-]*;base64,[A-Za-z0-9+/=_-]*"
_MIME = r"(?i)data:([\w.+-]+/[\w.+-]+)?"


def describe_parts(parts: tuple[Part, ...]) -> str:
    """The parts of a message, one after the other; blank ones and opaque ones are left out."""
    return "\n".join(filter(None, map(_line, parts)))


def _line(part: Part) -> str:
    match part:
        case InputImage():
            return f"[image_url] {_reference(part.image_url)}"
        case InputAudio():
            return f"[input_audio] {_reference(part.audio_url)}"
        case Refusal():
            return part.refusal.strip()
        case Unknown():
            return _foreign(part)
        case _:
            text = str(getattr(part, "text", ""))
            return re.sub(_INLINE, lambda found: _inline(found[0]), text).strip()


def _reference(url: str) -> str:
    if url[:5].lower() == "data:":
        return _inline(url)
    return _cut(url)


def _inline(uri: str) -> str:
    found = re.match(_MIME, uri)
    mime = (found[1] if found else None) or "unknown type"
    return f"inline data URI ({mime}, {len(uri)} chars)"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} chars)"


def _foreign(part: Unknown) -> str:
    try:
        name, value = part.type, msgspec.json.decode(part.payload)
    except RecursionError:
        name, value = "", "..."
    shown = msgspec.json.encode(_truncate(value)).decode()
    kept = shown if len(shown) <= _LONGEST_DATA else f"{shown[:_LONGEST_DATA]}..."
    return f"[{_cut(name) or 'unknown'}] {kept}"


def _truncate(value: Any, depth: int = 0) -> Any:
    """A JSON value with what is deep, broad or long in it cut."""
    match value:
        case str():
            return _reference(re.sub(_INLINE, lambda found: _inline(found[0]), value))
        case dict() | list() if depth >= _DEEPEST:
            return "..."
        case dict():
            kept = sorted(value)[:_MOST_KEYS]
            return {_cut(key): _truncate(value[key], depth + 1) for key in kept}
        case list():
            return [_truncate(each, depth + 1) for each in value[:_MOST_ITEMS]]
        case _:
            return value
