"""Markers: the start and end of a fragment's text, which no other text may imitate.

Owns recognition by markers and the quoting of data. Invariant: text that went
through `Vocabulary.quote` holds nothing that reads as a known marker, and text
that held none comes back byte for byte.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from ..core.wire import json_bytes
from .look_alikes import fold_look_alikes, is_plain

__all__ = ["Markers", "Vocabulary"]

T = TypeVar("T")


class Markers(Struct, frozen=True):
    """The start and the end of a fragment's text.

    A marker is a tag (``<skill>``), the stem of a family of tags (``<external_``),
    or a phrase that opens a line (``# AGENTS.md instructions``).
    """

    start: str
    end: str

    def matches(self, text: str) -> bool:
        """Return whether `text` stands between these markers; blank markers match nothing."""
        if not self.start.strip() or not self.end.strip():
            return False
        stripped = text.strip()
        # Only the ends become lower case: most texts are long, and few match.
        return (
            stripped[: len(self.start)].lower().startswith(self.start.lower())
            and stripped[-len(self.end) :].lower().endswith(self.end.lower())
            and len(stripped) >= len(self.start) + len(self.end)
        )

    def wrap(self, body: str) -> str:
        """Return `body` between the markers; it has its own line breaks."""
        return f"{self.start}{body}{self.end}"

    def clashes_with(self, other: Markers) -> bool:
        """Return whether a side of one could be taken for a side of the other."""
        return any(
            mine.startswith(theirs) or theirs.startswith(mine)
            for mine in _shapes(self)
            for theirs in _shapes(other)
        )


class Vocabulary(Struct, frozen=True):
    """Every marker that data may not imitate."""

    tags: frozenset[str] = frozenset()
    stems: frozenset[str] = frozenset()
    phrases: frozenset[str] = frozenset()
    closings: frozenset[str] = frozenset()

    @classmethod
    def of(cls, markers: Iterable[Markers]) -> Vocabulary:
        """Return the vocabulary of these markers."""
        tags, stems, phrases = set(), set(), set()
        for marker in (side for pair in markers for side in (pair.start, pair.end) if side):
            if not marker.startswith("<"):
                phrases.add(marker.lower())
            elif marker.endswith(">"):
                tags.add(_tag_name(marker))
            else:
                stems.add(_tag_name(marker))
        return cls(frozenset(tags), frozenset(stems), frozenset(phrases))

    def with_own(self, markers: Markers | None, inner: Iterable[str]) -> Vocabulary:
        """Return this vocabulary, plus what one fragment's own data may not imitate.

        Of the `inner` tags of a body only the closing forms matter: data that cannot
        close its element cannot open another beside it.
        """
        own = Vocabulary.of([markers] if markers else [])
        return Vocabulary(
            self.tags | own.tags,
            self.stems | own.stems,
            self.phrases | own.phrases,
            self.closings | frozenset(inner),
        )

    def knows(self, markers: Markers) -> bool:
        """Return whether the start marker is one of these, or of one of these families."""
        start = markers.start.lower()
        if not start.startswith("<"):
            return start in self.phrases
        name = _tag_name(start)
        return name in self.tags or any(name.startswith(stem) for stem in self.stems)

    def quote(self, text: str) -> str:
        """Return `text` with the first character of every look-alike as an entity.

        Letters of other shapes, characters that nobody sees and line ends of other kinds
        deceive nobody: the text is looked at as it is read.
        """
        if not is_plain(text):
            return self._quote_folded(text)
        if "<" in text and (tags := _tag_pattern(self)):
            text = tags.sub(_entity, text)
        phrases = _phrase_pattern(self)
        return phrases.sub(_entity, text) if phrases else text

    def _quote_folded(self, text: str) -> str:
        folded = fold_look_alikes(text)
        found: dict[int, str] = {}
        for pattern in filter(None, (_tag_pattern(self), _phrase_pattern(self))):
            # As it is written too: folding may join what a character kept apart.
            found |= {match.end() - 1: match.group()[-1] for match in pattern.finditer(text)}
            found |= {
                folded.place(match.end() - 1): match.group()[-1]
                for match in pattern.finditer(folded.text)
            }
        pieces, done = [], 0
        for place, char in sorted(found.items()):
            pieces += [text[done:place], _entity_of(char)]
            done = place + 1
        return "".join((*pieces, text[done:]))

    def quote_all(self, value: T) -> T:
        """Return `value` with every text in it quoted, however deep."""
        return cast("T", _map_text(value, self.quote))


def _shapes(markers: Markers) -> set[str]:
    """Return both sides in one spelling: opening and closing tags look the same."""
    sides = filter(None, (markers.start, markers.end))
    return {
        f"<{_tag_name(side)}{'>' * side.endswith('>')}" if side[0] == "<" else side.lower()
        for side in sides
    }


def _tag_name(marker: str) -> str:
    return " ".join(marker.strip("</>").lower().split())


@functools.lru_cache(maxsize=256)
def _tag_pattern(words: Vocabulary) -> re.Pattern[str] | None:
    """Return a pattern for the character to quote; it looks ahead for the rest of the tag."""
    return _either(
        [
            *_any(r"<(?=\s*+(?:/\s*+)?(?:{})(?![\w.:-]))", words.tags),
            *_any(r"<(?=\s*+(?:/\s*+)?(?:{}))", words.stems),
            *_any(r"<(?=\s*+/\s*+(?:{})\s*+>)", words.closings),
        ]
    )


@functools.lru_cache(maxsize=256)
def _phrase_pattern(words: Vocabulary) -> re.Pattern[str] | None:
    """Return a pattern up to the character to quote; it looks ahead for the rest."""
    phrases = sorted(words.phrases)
    return _either([rf"^[^\S\n]*+{re.escape(p[0])}(?={_with_any_space(p[1:])})" for p in phrases])


def _either(shapes: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(shapes), re.IGNORECASE | re.MULTILINE) if shapes else None


def _any(shape: str, names: Iterable[str]) -> list[str]:
    """Return `shape` around the alternatives, if there are any."""
    found = "|".join(_with_any_space(name) for name in sorted(names))
    return [shape.replace("{}", found)] if found else []


def _with_any_space(words: str) -> str:
    return re.sub(r"(?:\\ )+", lambda _: r"\s+", re.escape(words))


def _entity(match: re.Match[str]) -> str:
    return match.group()[:-1] + _entity_of(match.group()[-1])


def _entity_of(char: str) -> str:
    return "&lt;" if char == "<" else f"&#{ord(char)};"


def _map_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)(_map_text(element, change) for element in value)
    if isinstance(value, dict):
        return {_map_text(k, change): _map_text(v, change) for k, v in value.items()}
    if isinstance(value, Raw):
        decoded = msgspec.json.decode(value)
        changed = _map_text(decoded, change)
        return value if changed == decoded else Raw(json_bytes(changed))
    if isinstance(value, Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **_map_text(fields, change))
    return value
