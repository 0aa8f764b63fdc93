"""Extracts: summaries that no model writes.

Owns what is taken from a source, in which order, and how much of each. Invariants: the
same source gives the same bytes; an extract is smaller than its source, always.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from ....core.patterns import regex
from ....core.text import BYTES_PER_TOKEN
from .clipping import clip, clip_middle, on_one_line, sentences, size_of
from .expanding import body_of, completed, with_names
from .facts import Fact, find_facts
from .outcomes import UNREPORTED
from .passages import Passage, passages
from .source import Source, Summary, source_tokens

__all__ = ["DEFAULT_TOKENS", "PROMPT", "extract"]

PROMPT = "extract-1"
DEFAULT_TOKENS = 512

_SHARE = 0.2
"""An extract takes no more of its source than this …"""
_LEAST = 96
"""… unless that is less than these tokens."""
_EXPAND_SHARE = 0.2
_REASON = regex(
    r"(?:\b(?:because|decided|instead of|rather than|so that|chose|therefore|turns out)\b"
    r"|因为|决定|ため|때문)",
    re.IGNORECASE,
)
_Lines = Callable[[Sequence[Passage], Sequence[Fact]], Iterator[str]]


def extract(source: Source, target: int = DEFAULT_TOKENS) -> Summary:
    """Excerpts of a source, in at most `target` tokens."""
    read = passages(source)
    facts = find_facts(read)
    tokens = source_tokens(source)
    limit = min(target, max(_LEAST, int(tokens * _SHARE)), max(tokens - 1, 0))
    text, lost = _fitted(read, facts, limit * BYTES_PER_TOKEN)
    return Summary(text=text, prompt=PROMPT, degraded=True, missing=lost)


def _fitted(
    read: Sequence[Passage], facts: Sequence[Fact], size: int
) -> tuple[str, tuple[str, ...]]:
    """A text of at most `size` bytes, and the facts that it lost."""
    bare = with_names("", ())
    if size < size_of(bare) + 1:
        return "", tuple(on_one_line(fact.text) for fact in facts)
    room = int(size * (1 - _EXPAND_SHARE)) - size_of(bare)
    body = _told(read, facts, room) if room > 0 else ""
    text = with_names(body, ())
    if size_of(text) > size:
        text = bare
    return completed(text, facts, size - size_of(text))


def _told(read: Sequence[Passage], facts: Sequence[Fact], size: int) -> str:
    """Sections by weight: each has its share, and what it leaves goes to the next."""
    children = [one for one in read if one.kind == "summary"]
    if children:
        return _abridged(children, size)
    told: dict[str, str] = {}
    spare = 0
    for title, share, lines in _SECTIONS:
        room = int(size * share) + spare
        told[title] = _section(title, lines(read, facts), room)
        spare = room - size_of(told[title]) - 1 if told[title] else room
    return "\n".join(filter(None, (told[title] for title in _ORDER)))


def _section(title: str, lines: Iterator[str], room: int) -> str:
    """As many lines as fit; prose that does not fit by itself is cut, a name never is."""
    kept: list[str] = []
    room -= size_of(title) + 1
    for line in dict.fromkeys(lines):
        room -= size_of(line) + 3
        if room < 0:
            if not kept and title in _PROSE:
                kept = list(filter(None, [clip_middle(line, room + size_of(line), " … ")]))
            break
        kept.append(line)
    return "\n".join((f"{title}:", *(f"- {line}" for line in kept))) if kept else ""


def _abridged(children: Sequence[Passage], size: int) -> str:
    """The beginnings of summaries, each with an equal share."""
    share = size // len(children) - 1
    texts = (body_of(one.text) for one in children)
    return "\n".join(filter(None, (clip(text, share) for text in texts if share > 0)))


def _goal(read: Sequence[Passage], facts: Sequence[Fact]) -> Iterator[str]:
    del facts
    said = [on_one_line(one.text) for one in read if one.kind == "user"]
    yield from (clip_middle(text, 600, " … ") for text in said[:1])


def _asked(read: Sequence[Passage], facts: Sequence[Fact]) -> Iterator[str]:
    del facts
    said = [on_one_line(one.text) for one in read if one.kind == "user"]
    yield from (clip_middle(text, 300, " … ") for text in reversed(said[1:]))


def _state(read: Sequence[Passage], facts: Sequence[Fact]) -> Iterator[str]:
    del facts
    said = [on_one_line(one.text) for one in read if one.kind == "assistant"]
    yield from (clip_middle(text, 800, " … ") for text in said[-1:])


def _said(read: Sequence[Passage], facts: Sequence[Fact]) -> Iterator[str]:
    del facts
    said = [on_one_line(one.text) for one in read if one.kind == "assistant"]
    yield from (clip_middle(text, 300, " … ") for text in reversed(said[:-1]))


def _open(read: Sequence[Passage], facts: Sequence[Fact]) -> Iterator[str]:
    del read
    yield from (fact.text for fact in facts if fact.kind == "task")


def _errors(read: Sequence[Passage], facts: Sequence[Fact]) -> Iterator[str]:
    del read
    yield from (fact.text for fact in facts if fact.kind == "error")


def _files(read: Sequence[Passage], facts: Sequence[Fact]) -> Iterator[str]:
    del read
    yield from (fact.text for fact in facts if fact.kind == "path")


def _commands(read: Sequence[Passage], facts: Sequence[Fact]) -> Iterator[str]:
    """What ran and how it ended: what failed first, then the newest of the rest."""
    yield from (fact.text for fact in facts if fact.kind == "failure")
    for one in reversed(read):
        if one.kind == "result" and one.about and one.status != UNREPORTED:
            yield f"{clip(on_one_line(one.about), 80)}: {one.status}"


def _decisions(read: Sequence[Passage], facts: Sequence[Fact]) -> Iterator[str]:
    del facts
    for one in read:
        if one.kind in ("user", "assistant", "thought"):
            yield from (clip(said, 240) for said in sentences(one.text) if _REASON.search(said))


_SECTIONS: tuple[tuple[str, float, _Lines], ...] = (
    ("Goal", 0.2, _goal),
    ("Open", 0.12, _open),
    ("Newest state", 0.22, _state),
    ("Errors", 0.14, _errors),
    ("Commands", 0.1, _commands),
    ("Files", 0.12, _files),
    ("Decisions", 0.1, _decisions),
    ("Asked later, newest first", 0.0, _asked),
    ("Said before, newest first", 0.0, _said),
)
"""By weight, with the share of the text that is set aside for each."""

_ORDER = (
    "Goal",
    "Asked later, newest first",
    "Said before, newest first",
    "Decisions",
    "Files",
    "Commands",
    "Errors",
    "Newest state",
    "Open",
)
_PROSE = frozenset({"Goal", "Newest state"})
