"""Make extracts: summaries of excerpts that no model writes.

Owns what is taken from a source, in which order, and how much of each. Invariants: the
same source gives the same bytes; an extract is always smaller than its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ....core.text import BYTES_PER_TOKEN
from .clipping import byte_size, clip, clip_middle, one_line, sentences
from .key_facts import Fact, add_missing_facts, find_facts
from .passages import STATUS_NOT_REPORTED, Passage, passages
from .source import Summary, SummarySource, source_tokens, summary_body, with_expand_line

__all__ = ["DEFAULT_TOKENS", "EXTRACT_VERSION", "extract"]

EXTRACT_VERSION = "extract-1"
DEFAULT_TOKENS = 512

_SHARE = 0.2
"""An extract takes no more of its source than this …"""
_LEAST = 96
"""… unless that is less than these tokens."""
_EXPAND_SHARE = 0.2
_REASON = re.compile(
    r"(?:\b(?:because|decided|instead of|rather than|so that|chose|therefore|turns out)\b"
    r"|因为|决定|ため|때문)",
    re.IGNORECASE,
)
_SHARES = {
    "Goal": 0.2,
    "Open": 0.12,
    "Newest state": 0.22,
    "Errors": 0.14,
    "Commands": 0.1,
    "Files": 0.12,
    "Decisions": 0.1,
    "Asked later, newest first": 0.0,
    "Said before, newest first": 0.0,
}
"""The share of the text that is reserved for each section; the most important ones first."""
_PROSE = frozenset({"Goal", "Newest state"})


def extract(source: SummarySource, target: int = DEFAULT_TOKENS) -> Summary:
    """Return excerpts of a source, in at most `target` tokens."""
    pieces = passages(source)
    facts = find_facts(pieces)
    tokens = source_tokens(source)
    limit = min(target, max(_LEAST, int(tokens * _SHARE)), max(tokens - 1, 0))
    text, missing = _text_within(pieces, facts, limit * BYTES_PER_TOKEN)
    return Summary(text=text, prompt=EXTRACT_VERSION, degraded=True, missing=missing)


def _text_within(
    pieces: Sequence[Passage], facts: Sequence[Fact], size: int
) -> tuple[str, tuple[str, ...]]:
    """Return a text of at most `size` bytes, and the facts that it lost."""
    empty = with_expand_line("", ())
    if size < byte_size(empty) + 1:
        return "", tuple(one_line(fact.text) for fact in facts)
    room = int(size * (1 - _EXPAND_SHARE)) - byte_size(empty)
    body = _sections_within(pieces, facts, room) if room > 0 else ""
    text = with_expand_line(body, ())
    if byte_size(text) > size:
        text = empty
    return add_missing_facts(text, facts, size - byte_size(text))


def _sections_within(pieces: Sequence[Passage], facts: Sequence[Fact], size: int) -> str:
    """Return the sections; what a section leaves of its share goes to the next important one."""
    children = [one for one in pieces if one.kind == "summary"]
    if children:
        return _shortened_summaries(children, size)
    lines = _section_lines(pieces, facts)
    sections: dict[str, str] = {}
    spare = 0
    for title, share in _SHARES.items():
        room = int(size * share) + spare
        sections[title] = _section(title, lines[title], room)
        spare = room - byte_size(sections[title]) - 1 if sections[title] else room
    return "\n".join(filter(None, (sections[title] for title in lines)))


def _section(title: str, lines: Iterator[str], room: int) -> str:
    """Return as many lines as fit; prose that does not fit by itself is cut, a name never is."""
    kept: list[str] = []
    room -= byte_size(title) + 1
    for line in dict.fromkeys(lines):
        room -= byte_size(line) + 3
        if room < 0:
            if not kept and title in _PROSE:
                kept = list(filter(None, [clip_middle(line, room + byte_size(line), " … ")]))
            break
        kept.append(line)
    return "\n".join((f"{title}:", *(f"- {line}" for line in kept))) if kept else ""


def _shortened_summaries(children: Sequence[Passage], size: int) -> str:
    """Return the beginnings of summaries, each with an equal share."""
    share = size // len(children) - 1
    texts = (summary_body(one.text) for one in children)
    return "\n".join(filter(None, (clip(text, share) for text in texts if share > 0)))


def _section_lines(pieces: Sequence[Passage], facts: Sequence[Fact]) -> dict[str, Iterator[str]]:
    """Return the lines that each section may have, the most important ones first."""
    asked = [one_line(one.text) for one in pieces if one.kind == "user"]
    answers = [one_line(one.text) for one in pieces if one.kind == "assistant"]
    return {
        "Goal": (clip_middle(text, 600, " … ") for text in asked[:1]),
        "Asked later, newest first": (clip_middle(t, 300, " … ") for t in reversed(asked[1:])),
        "Said before, newest first": (clip_middle(t, 300, " … ") for t in reversed(answers[:-1])),
        "Decisions": _decisions(pieces),
        "Files": (fact.text for fact in facts if fact.kind == "path"),
        "Commands": _commands(pieces, facts),
        "Errors": (fact.text for fact in facts if fact.kind == "error"),
        "Newest state": (clip_middle(text, 800, " … ") for text in answers[-1:]),
        "Open": (fact.text for fact in facts if fact.kind == "task"),
    }


def _commands(pieces: Sequence[Passage], facts: Sequence[Fact]) -> Iterator[str]:
    """Return commands with their status: those that failed first, then the newest others."""
    yield from (fact.text for fact in facts if fact.kind == "failure")
    for one in reversed(pieces):
        if one.kind == "result" and one.about and one.status != STATUS_NOT_REPORTED:
            yield f"{clip(one_line(one.about), 80)}: {one.status}"


def _decisions(pieces: Sequence[Passage]) -> Iterator[str]:
    """Return sentences that give a reason."""
    for one in pieces:
        if one.kind in ("user", "assistant", "thought"):
            yield from (clip(text, 240) for text in sentences(one.text) if _REASON.search(text))
