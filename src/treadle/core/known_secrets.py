"""Known secrets: how they are found in texts, JSON, values and streams, and blanked there.

Owns the spellings of a secret and the one search for all of them. Invariants: what comes out
holds no known secret, also where the pieces of a stream cut it or JSON escapes it; JSON stays
JSON; a value without secrets comes out as the same object.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Sequence
from operator import is_not
from types import NoneType
from typing import Any, AnyStr, Generic, TypeVar, cast
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct

from .wire import UNREADABLE, json_bytes

__all__ = [
    "BLANK",
    "KnownSecrets",
    "Search",
    "StreamBlanker",
    "byte_blanker",
    "is_unmistakable",
    "spellings",
    "text_blanker",
]

BLANK = "…"
"""Replaces a secret."""

_SHORTEST = 8
_LONG = 20
_SHORT = 64
"""Nearly all pieces of an answer are shorter."""
_LITERAL = r'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_ESCAPE = r"\\(?:u(?!00[01])|/)"
"""An escape that no encoder has to use, behind which a letter can hide."""

_PLAIN = frozenset((NoneType, bool, int, float))

T = TypeVar("T")


def is_unmistakable(secret: str) -> bool:
    """Return whether a secret is no word that ordinary texts have, such as a placeholder.

    >>> is_unmistakable("sk-4471-xyz"), is_unmistakable("lm-studio"), is_unmistakable("a1")
    (True, False, False)
    """
    if len(secret) < _SHORTEST:
        return False
    is_mixed = secret != secret.lower() and secret != secret.upper()
    return len(secret) >= _LONG or is_mixed or any(each.isdigit() for each in secret)


def spellings(secret: str) -> tuple[str, ...]:
    """Return a secret as it is spelt in headers, URLs, JSON and basic credentials."""
    data = secret.encode(errors="surrogateescape")
    escaped = json_bytes(data.decode(errors="replace"))[1:-1].decode()
    plain = (secret, quote(data, safe=""), escaped)
    return tuple(dict.fromkeys((*plain, *_base64_spellings(data))))


def _base64_spellings(data: bytes) -> Iterable[str]:
    """Yield what base64 makes of a secret, whatever stands before and behind it."""
    for shift in range(3):
        first, last = -(-shift * 8 // 6), (shift + len(data)) * 8 // 6
        coded = base64.b64encode(bytes(shift) + data).decode()[first:last]
        yield coded
        yield coded.replace("+", "-").replace("/", "_")


def _patterns(wanted: Sequence[str]) -> tuple[str, str]:
    """Return what finds the longest of `wanted`, and what finds where one may begin."""
    begins = {re.escape(each[:2]) for each in wanted}
    begins |= {rf"{re.escape(each[:1])}\Z" for each in wanted}
    whole = sorted(wanted, key=len, reverse=True)
    return "|".join(map(re.escape, whole)), "|".join(sorted(begins))


class Search(Generic[AnyStr]):
    """Finds spellings, in texts or in bytes."""

    def __init__(
        self,
        wanted: Sequence[AnyStr],
        blank: AnyStr,
        whole: re.Pattern[AnyStr],
        begin: re.Pattern[AnyStr],
    ) -> None:
        self.wanted: tuple[AnyStr, ...] = tuple(wanted)
        self.shortest, self.longest = min(map(len, wanted)), max(map(len, wanted))
        self.blank: AnyStr = blank
        self._whole: re.Pattern[AnyStr] = whole
        self._begin: re.Pattern[AnyStr] = begin

    def found_in(self, text: AnyStr) -> bool:
        """Return whether `text` holds a secret."""
        if len(text) < self.shortest:
            return False
        # Many times faster than the pattern, and nearly always the last thing that is done.
        for each in self.wanted:  # noqa: SIM110 - a generator would take as long as the search
            if each in text:
                return True
        return False

    def concerns(self, text: AnyStr) -> bool:
        """Return whether a secret may be in `text`, or begin in it; fast for short ones."""
        return self._begin.search(text) is not None

    def sub(self, text: AnyStr) -> AnyStr:
        """Return `text` without secrets."""
        return self._whole.sub(lambda _: self.blank, text)

    def split(self, text: AnyStr) -> tuple[AnyStr, AnyStr]:
        """Return `text` without secrets up to where one may have begun, and the rest."""
        parts: list[AnyStr] = []
        done, held = 0, self._begins_at(text)
        for match in self._whole.finditer(text) if self.found_in(text) else ():
            if match.start() >= held:
                break  # it may be the beginning of a longer one
            parts += [text[done : match.start()], self.blank]
            done = match.end()
        if done > held:
            held = done + self._begins_at(text[done:])
        parts.append(text[done:held])
        return text[:0].join(parts), text[held:]

    def _begins_at(self, text: AnyStr) -> int:
        """Return where the beginning of a spelling stands at the end of `text`, or its length."""
        at = max(len(text) - self.longest + 1, 0)
        while (match := self._begin.search(text, at)) is not None:
            at = match.start()
            rest = text[at:]
            if any(each.startswith(rest) for each in self.wanted):
                return at
            at += 1
        return len(text)


class KnownSecrets:
    """The secrets that are known at one time, and the search for them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        spelled = {each for secret in secrets for each in spellings(secret)}
        texts = sorted(spelled, key=len, reverse=True)
        self.text = Search(texts, BLANK, *map(re.compile, _patterns(texts)))
        # Each byte as a letter, so that a pattern can be made of them.
        letters = [each.encode(errors="surrogatepass").decode("latin-1") for each in texts]
        patterns = (re.compile(each.encode("latin-1")) for each in _patterns(letters))
        encoded = [each.encode("latin-1") for each in letters]
        self.data = Search(encoded, BLANK.encode(), *patterns)
        # A backslash or a quotation mark is escaped once more at each level of JSON.
        escape = r"\\" if any(mark in each for each in spelled for mark in '"\\') else _ESCAPE
        self._text_escape, self._data_escape = re.compile(escape), re.compile(escape.encode())
        self._text_literal = re.compile(_LITERAL)
        self._data_literal = re.compile(_LITERAL.encode())

    def blank_text(self, text: str) -> str:
        """Return `text` without secrets; text that is JSON stays JSON."""
        if len(text) < self.text.shortest:
            return text
        is_escaped = self._text_escape.search(text) is not None
        if not is_escaped and not self.text.found_in(text):
            return text
        if not _is_json(text):
            text = self.text.sub(text)
            if not is_escaped:
                return text
        return self._text_literal.sub(lambda match: self._blank_literal(match[0]), text)

    def blank_json(self, data: bytes) -> bytes:
        """Return a JSON document without secrets in its strings; all else stays byte for byte."""
        if not self.data.found_in(data) and self._data_escape.search(data) is None:
            return data
        return self._data_literal.sub(self._blank_encoded, data)

    def blank_value(self, value: T) -> T:
        """Return a value without secrets in its texts; bytes in it are JSON."""
        return cast("T", self._blank_any(value))

    def _blank_any(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN or not value:
            return value
        if kind is str:
            return self.blank_text(value)
        if kind is Raw or kind is bytes:
            data = bytes(value)
            blanked = self.blank_json(data)
            return value if blanked is data or blanked == data else kind(blanked)
        if isinstance(value, Struct):
            changes = {}
            for name in value.__struct_fields__:
                old = getattr(value, name)
                if type(old) not in _PLAIN and (new := self._blank_any(old)) is not old:
                    changes[name] = new
            return msgspec.structs.replace(value, **changes) if changes else value
        if kind is tuple or kind is list or kind is frozenset:
            return self._blank_members(value)
        if kind is dict:
            pairs = tuple(value.items())
            blanked = self._blank_members(pairs)
            return value if blanked is pairs else dict(blanked)
        return value

    def _blank_members(self, values: Any) -> Any:
        blanked = [self._blank_any(each) for each in values]
        return type(values)(blanked) if any(map(is_not, blanked, values)) else values

    def _blank_encoded(self, match: re.Match[bytes]) -> bytes:
        literal = match[0]
        if not self.data.found_in(literal) and self._data_escape.search(literal) is None:
            return literal
        try:
            text = msgspec.json.decode(literal, type=str)
        except UNREADABLE:
            return self.data.sub(literal)
        blanked = self.blank_text(text)
        return literal if blanked == text else json_bytes(blanked)

    def _blank_literal(self, literal: str) -> str:
        """Return a string of JSON inside a text without secrets."""
        try:
            text = msgspec.json.decode(literal, type=str)
        except (*UNREADABLE, UnicodeEncodeError):
            return self.text.sub(literal)
        blanked = self.blank_text(text)
        return literal if blanked == text else json_bytes(blanked).decode()


class StreamBlanker(Generic[AnyStr]):
    """Blanks secrets in what arrives in pieces.

    What may be the beginning of a secret waits for the piece that decides it.
    """

    def __init__(self, choose: Callable[[KnownSecrets], Search[AnyStr]], empty: AnyStr) -> None:
        self._choose: Callable[[KnownSecrets], Search[AnyStr]] = choose
        self.held: AnyStr = empty
        """What waits."""

    def feed(self, piece: AnyStr, known: KnownSecrets | None) -> AnyStr:
        """Return what is certain after `piece`; it may be nothing."""
        text = self.held + piece if self.held else piece
        if known is None:
            self.held = text[:0]
            return text
        search = self._choose(known)
        if len(text) <= _SHORT and not search.concerns(text):
            self.held = text[:0]
            return text
        done, self.held = search.split(text)
        return done

    def finish(self, known: KnownSecrets | None) -> AnyStr:
        """Return what still waits: nothing comes behind it."""
        rest, self.held = self.held, self.held[:0]
        return self._choose(known).sub(rest) if rest and known is not None else rest


def text_blanker() -> StreamBlanker[str]:
    """Return a blanker for pieces of a text."""
    return StreamBlanker(lambda known: known.text, "")


def byte_blanker() -> StreamBlanker[bytes]:
    """Return a blanker for pieces of what a program writes."""
    return StreamBlanker(lambda known: known.data, b"")


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return False
    try:
        msgspec.json.decode(text)
    except (*UNREADABLE, UnicodeEncodeError):
        return False
    return True
