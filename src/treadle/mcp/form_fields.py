"""Fields of forms: what a field asks the user for, and what counts as an answer to it.

Owns the words of the question and the way from what was said to a value. Invariant: a value that
is sent is of the type of its field, one of its choices, and within its bounds.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from ..core.text import whole_characters
from ..core.wire import Json, json_bytes
from ..policy.answer_schema import find_misfit
from ..tools.contract import AnswerOption

__all__ = ["NO", "YES", "FormField", "plain_text"]

YES, NO = "yes", "no"
_BOOLEANS = {YES: True, "y": True, "true": True, NO: False, "n": False, "false": False}
_LEFT_OUT = "-"
_MOST_OPTIONS = 20
_LONGEST = 2_000
_BOUNDS = ("minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum")


def _is_date(text: str) -> bool:
    return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", text)) and bool(dt.date.fromisoformat(text))


def _is_time(text: str) -> bool:
    return len(text) > len("2026-01-01") and bool(dt.datetime.fromisoformat(text))


_FORMATS: Mapping[str, tuple[Callable[[str], object], str]] = {
    "email": (re.compile(r"[^@\s]+@[^@\s]+").fullmatch, "an address such as ann@example.org"),
    "uri": (re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+").fullmatch, "an address such as https://…"),
    "date": (_is_date, "a date such as 2026-01-31"),
    "date-time": (_is_time, "a time such as 2026-01-31T12:00:00Z"),
}


class FormField(Struct, frozen=True, dict=True):
    """One field of a form, as its server describes it."""

    name: str
    schema: Mapping[str, Any]
    required: bool

    @property
    def label(self) -> str:
        """Return what is asked for, and what happens without an answer."""
        title, about = self.schema.get("title") or self.name, self.schema.get("description")
        told = f"{title}: {about}" if about else f"{title}"
        if self.schema.get("type") == "array":
            told = f"{told} (several with commas between)"
        if (default := self.schema.get("default")) is not None:
            told = f"{told} ('{_LEFT_OUT}' takes {_value_text(default)})"
        elif not self.required:
            told = f"{told} ('{_LEFT_OUT}' leaves it out)"
        return plain_text(told)

    @property
    def options(self) -> tuple[AnswerOption, ...]:
        """Return what may be chosen, as far as it can be shown; nothing where the user writes."""
        return tuple(AnswerOption(value, name) for value, name in self._choices[:_MOST_OPTIONS])

    def read(self, said: Sequence[str]) -> tuple[Any, str]:
        """Return the value of an answer, None for none; and why an answer is none."""
        words = [word.strip() for word in said if word.strip()]
        if not words or words == [_LEFT_OUT]:
            default = self.schema.get("default")
            return default, "It needs an answer." if self.required and default is None else ""
        value = self._value(words)
        problem = self._accepted_text() if value is None else self._misfit(value)
        shown = ", ".join(words)
        return value, f"{shown!r} is no answer to it: {problem}" if problem else ""

    @cached_property
    def _choices(self) -> list[tuple[str, str]]:
        """All values that may be chosen, each with what it means."""
        if self.schema.get("type") == "boolean":
            return [(YES, ""), (NO, "")]
        items = self.schema.get("items")
        inner = items if isinstance(items, Mapping) else self.schema
        titled = inner.get("oneOf") or inner.get("anyOf")
        if isinstance(titled, list):
            each = [one for one in titled if isinstance(one, Mapping)]
            found = [(one.get("const"), one.get("title", "")) for one in each]
        else:
            values = inner.get("enum") or ()
            names = inner.get("enumNames") or ("",) * len(values)
            found = [*zip(values, names, strict=False)]
        return [(plain_text(value), plain_text(name)) for value, name in found]

    def _value(self, words: Sequence[str]) -> Any:
        """Return an answer as the schema wants it; None where it is none."""
        first = words[0]
        match self.schema.get("type"):
            case "boolean":
                return _BOOLEANS.get(first.lower())
            case "integer":
                return int(first) if re.fullmatch(r"[+-]?[0-9]{1,17}", first) else None
            case "number":
                return _number(first)
            case "array":
                return self._several(words)
            case _:
                return self._chosen(first) if self._choices else first

    def _several(self, words: Sequence[str]) -> list[str] | None:
        parts = [part.strip() for word in words for part in word.split(",") if part.strip()]
        if not self._choices:
            return parts
        chosen = [self._chosen(part) or self._numbered(part) for part in parts]
        found = [each for each in chosen if each is not None]
        return [*dict.fromkeys(found)] if len(found) == len(parts) else None

    def _chosen(self, word: str) -> str | None:
        """Return the choice with this value, or the one with this name."""
        values = [value for value, _ in self._choices]
        if word in values:
            return word
        named = [
            v for v, name in self._choices if word.casefold() in (v.casefold(), name.casefold())
        ]
        return named[0] if len(named) == 1 else None

    def _numbered(self, word: str) -> str | None:
        """Return the choice with this number in the list that the user sees."""
        number = int(word) if word.isdecimal() and len(word) < 4 else 0
        return self._choices[number - 1][0] if 0 < number <= len(self.options) else None

    def _accepted_text(self) -> str:
        """Return in words what is wanted."""
        kind = str(self.schema.get("type"))
        shown = ", ".join(repr(each.label) for each in self.options)
        if shown and kind == "array":
            return f"it wants some of {shown}, with commas between"
        if shown:
            return f"it wants one of {shown}"
        words = {"integer": "a whole number", "number": "a number"}
        return f"it wants {words.get(kind, 'a text')}"

    def _misfit(self, value: Any) -> str:
        """Return why a value of the right type is no answer; empty where it is one."""
        bounds = {word: self.schema[word] for word in _BOUNDS if word in self.schema}
        if misfit := find_misfit(json_bytes(value).decode(), Json(json_bytes(bounds))):
            return misfit
        known = _FORMATS.get(str(self.schema.get("format")))
        if known is None or not isinstance(value, str):
            return ""
        fits, words = known
        try:
            return "" if fits(value) else f"it wants {words}"
        except ValueError:
            return f"it wants {words}"


def plain_text(text: object) -> str:
    """Return a text of a server, cut where it is too long for a question."""
    return whole_characters(str(text))[:_LONGEST]


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _value_text(value: object) -> str:
    """Return a value as the user would type it."""
    if isinstance(value, bool):
        return YES if value else NO
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
