"""Patterns: regular expressions that can be searched for in bounded time.

Owns their grammar: characters, classes, groups, choices, repeats, edges of lines and
words, and a leading ``(?i)``. Invariant: what would need to look back or ahead is
refused with a reason, so that whatever is parsed runs in linear time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, NoReturn, TypeAlias

from ...core.errors import SearchRefused

__all__ = [
    "DEEPEST",
    "LONGEST",
    "MOST",
    "Chars",
    "Choice",
    "Edge",
    "Node",
    "Pattern",
    "Repeat",
    "Row",
    "parsed",
]

LONGEST = 500
"""Characters of a pattern."""
DEEPEST = 40
"""Groups within each other, and repeats of a repeat."""
MOST = 500
"""The highest count of a repeat."""

_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_CLASSES: dict[str, Callable[[str], bool]] = {
    "d": str.isdigit,
    "s": str.isspace,
    "w": lambda char: char.isalnum() or char == "_",
}


class Chars(NamedTuple):
    """One character out of ranges and classes, or one that is in none of them."""

    ranges: tuple[tuple[str, str], ...] = ()
    classes: tuple[str, ...] = ()
    """``d``, ``s``, ``w``; in upper case what they leave out."""
    negated: bool = False

    @property
    def literal(self) -> str | None:
        """The only character that fits."""
        if self.negated or self.classes or len(self.ranges) != 1:
            return None
        low, high = self.ranges[0]
        return low if low == high else None

    def fits(self, char: str) -> bool:
        """Whether a character is one of them."""
        within = any(low <= char <= high for low, high in self.ranges)
        return self.negated != (within or any(self._is(char, name) for name in self.classes))

    def _is(self, char: str, name: str) -> bool:
        return _CLASSES[name.lower()](char) == name.islower()


class Edge(NamedTuple):
    """A place between characters: ``^``, ``$``, ``b`` or ``B``."""

    kind: Literal["^", "$", "b", "B"]


class Row(NamedTuple):
    """One after the other."""

    parts: tuple[Node, ...]


class Choice(NamedTuple):
    """Any one of them."""

    options: tuple[Node, ...]


class Repeat(NamedTuple):
    """From `low` to `high` times; None for no end."""

    part: Node
    low: int
    high: int | None


Node: TypeAlias = Chars | Edge | Row | Choice | Repeat


class Pattern(NamedTuple):
    """A parsed regular expression."""

    tree: Node
    ignores_case: bool


def parsed(text: str) -> Pattern:
    """The pattern that `text` spells. Raises `SearchRefused`."""
    ignores_case = text.startswith("(?i)")
    reader = _Reader(text, 4 if ignores_case else 0)
    if len(text) > LONGEST:
        reader.refuse(f"has more than {LONGEST} characters; search for a part of it")
    tree = reader.choice()
    if reader.at < len(text):
        reader.refuse("has a ')' too many")
    return Pattern(tree, ignores_case)


_ANY = Chars((("\n", "\n"),), (), negated=True)
_LOOKS = ("=", "!", "<=", "<!", ">")


@dataclass(slots=True)
class _Reader:
    """Reads a pattern from left to right."""

    text: str
    at: int
    depth: int = field(default=0, init=False)

    def refuse(self, why: str) -> NoReturn:
        raise SearchRefused(f"the regular expression {self.text[:80]!r} {why}")

    def take(self, expected: str) -> bool:
        found = self.text.startswith(expected, self.at)
        self.at += len(expected) if found else 0
        return found

    def next(self) -> str:
        if self.at == len(self.text):
            self.refuse("ends too early; close what it opens, or escape a last backslash")
        self.at += 1
        return self.text[self.at - 1]

    def choice(self) -> Node:
        options = [self.row()]
        while self.take("|"):
            options.append(self.row())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def row(self) -> Node:
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            parts.append(self.repeated(self.one()))
        return Row(tuple(parts))

    def repeated(self, part: Node) -> Node:
        nested = 0
        while (times := self.times()) is not None:
            part = Repeat(part, *times)
            nested += 1
            if nested > DEEPEST:
                self.refuse(f"repeats a repeat more than {DEEPEST} times; once is the same")
            if self.take("+"):
                self.refuse("has a possessive repeat, which is not known here; drop its '+'")
            self.take("?")  # lazy or greedy: the same texts match
        return part

    def times(self) -> tuple[int, int | None] | None:
        for sign, low, high in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self.take(sign):
                return low, high
        if not self.text.startswith("{", self.at):
            return None
        counts, closed, _ = self.text[self.at + 1 :].partition("}")
        first, comma, last = counts.partition(",")
        if not closed or not (first or comma) or not (first + last).isdecimal():
            return None
        self.at += len(counts) + 2
        low = int(first or 0)
        high = (int(last) if last else None) if comma else low
        if max(low, high or 0) > MOST or (high is not None and high < low):
            self.refuse(f"repeats {{{counts}}} times; say at most {MOST}, the smaller first")
        return low, high

    def one(self) -> Node:
        char = self.next()
        match char:
            case "(":
                return self.group()
            case "[":
                return self.set()
            case ".":
                return _ANY
            case "^" | "$":
                return Edge(char)
            case "\\":
                return self.escaped()
            case "*" | "+" | "?":
                self.refuse(f"has a {char!r} with nothing to repeat; escape it to mean itself")
        return Chars(((char, char),))

    def group(self) -> Node:
        if self.take("?"):
            self.named_or_plain()
        self.depth += 1
        if self.depth > DEEPEST:
            self.refuse(f"nests more than {DEEPEST} groups")
        inside = self.choice()
        self.depth -= 1
        if not self.take(")"):
            self.refuse("has a '(' that is not closed")
        return inside

    def named_or_plain(self) -> None:
        if any(self.take(look) for look in _LOOKS):
            self.refuse("looks ahead or behind, which is not known here; search for less")
        if self.take(":"):
            return
        if not self.take("P<") or ">" not in self.text[self.at :]:
            self.refuse("has a kind of group that is not known here; use '(?:…)' or '(…)'")
        self.at = self.text.index(">", self.at) + 1

    def escaped(self) -> Node:
        char = self.next()
        if char in "bB":
            return Edge(char)  # type: ignore[arg-type] # one of the two
        if char in "AZz":
            return Edge("^" if char == "A" else "$")
        return self.escape(char)

    def escape(self, char: str) -> Chars:
        if char.lower() in _CLASSES:
            return Chars((), (char,))
        if char in "xu":
            digits = self.text[self.at : self.at + (2 if char == "x" else 4)]
            self.at += len(digits)
            try:
                code = chr(int(digits, 16))
            except ValueError:
                self.refuse(f"has an escape \\{char} without its digits")
            return Chars(((code, code),))
        if char.isdigit() and char != "0":
            self.refuse("refers back to a group, which is not known here; write the text again")
        if char.isalpha() and char not in _CONTROLS:
            self.refuse(f"has an escape \\{char} that is not known here")
        char = _CONTROLS.get(char, char)
        return Chars(((char, char),))

    def set(self) -> Chars:
        negated = self.take("^")
        ranges: list[tuple[str, str]] = []
        classes: list[str] = []
        first = True
        while first or not self.take("]"):
            low = self.member()
            first = False
            if low.literal is None:
                classes += low.classes
            else:
                ranges.append((low.literal, self.end_of_range(low.literal)))
        return Chars(tuple(ranges), tuple(classes), negated)

    def member(self) -> Chars:
        char = self.next()
        if char != "\\":
            return Chars(((char, char),))
        char = self.next()
        return Chars((("\b", "\b"),)) if char == "b" else self.escape(char)

    def end_of_range(self, low: str) -> str:
        if not self.text.startswith("-", self.at) or self.text.startswith("-]", self.at):
            return low
        self.at += 1
        high = self.member().literal
        if high is None or high < low:
            self.refuse(f"has a range from {low!r} that does not end after it")
        return high
