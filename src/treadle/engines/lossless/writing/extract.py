"""Make extracts: summaries of excerpts that no model writes.

Owns what is taken from a source, in which order, and how much of each. Invariants: the
same source gives the same bytes; an extract is always smaller than its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ....core.text import BYTES_PER_TOKEN
from .clipping import byte_size, clip, clip_middle, looks_like_code, one_line, prose, sentences
from .key_facts import Fact, add_missing_facts, find_facts, is_echo, missing_facts
from .listings import without_listings
from .passages import STATUS_NOT_REPORTED, Passage, passages
from .section_lines import merged_sections
from .source import Summary, SummarySource, source_tokens, with_expand_line
from .user_words import is_telling, wishes_in, with_wishes, within_room

__all__ = ["DEFAULT_TOKENS", "EXTRACT_VERSION", "decisions", "extract", "findings"]

EXTRACT_VERSION = "extract-2"
DEFAULT_TOKENS = 512

_SHARE = 0.2
"""An extract takes no more of its source than this …"""
_SHARE_OF_SUMMARIES = 0.35
"""… or than this, where its source was made short before …"""
_LEAST = 96
"""… unless that is less than these tokens."""
_EXPAND_SHARE = 0.2
_REASON = re.compile(
    r"(?:\b(?:because|decided|instead of|rather than|so that|chose|therefore|turns out)\b"
    r"|\b(?:weil|deshalb|entschieden|stattdessen)\b|因为|决定|ため|때문)",
    re.IGNORECASE,
)
_SHARES = {
    "Goal": 0.16,
    "Found": 0.24,
    "Newest state": 0.18,
    "Open": 0.1,
    "Decisions": 0.12,
    "Errors": 0.08,
    "Commands": 0.06,
    "Files": 0.06,
}
"""The share of the text that is reserved for each section; the most important ones first."""
_ORDER = ("Goal", "Decisions", "Found", "Files", "Commands", "Errors", "Newest state", "Open")
_PROSE = frozenset({"Goal", "Newest state"})
_WISH_SHARE = 0.45
"""How much the user's own words may take."""
_LEAST_PROSE = 40
"""Fewer bytes of a cut text say nothing."""
_FINDING_BYTES = 240
_FOUND_IN = frozenset({"number", "identifier", "path", "id", "name"})
"""The kinds of facts that make a sentence a finding."""


def extract(source: SummarySource, target: int = DEFAULT_TOKENS) -> Summary:
    """Return excerpts of a source, in at most `target` tokens."""
    pieces = passages(source)
    facts = find_facts(pieces)
    tokens = source_tokens(source)
    share = _SHARE_OF_SUMMARIES if source.children else _SHARE
    limit = min(target, max(_LEAST, int(tokens * share)), max(tokens - 1, 0))
    text, missing = _text_within(pieces, facts, limit * BYTES_PER_TOKEN)
    return Summary(text=text, prompt=EXTRACT_VERSION, degraded=True, missing=missing)


def _text_within(
    pieces: Sequence[Passage], facts: Sequence[Fact], size: int
) -> tuple[str, tuple[str, ...]]:
    """Return a text of at most `size` bytes, and the facts that it lost."""
    empty = with_expand_line("", ())
    if size < byte_size(empty) + 1:
        return "", tuple(one_line(fact.text) for fact in facts)
    wishes = within_room(wishes_in(pieces), int(size * _WISH_SHARE))
    room = int(size * (1 - _EXPAND_SHARE)) - byte_size(empty) - byte_size(with_wishes("", wishes))
    body = _sections_within(pieces, facts, wishes, room) if room > 0 else ""
    text = with_expand_line(with_wishes(body, wishes), ())
    if byte_size(text) > size:
        text = empty
    return add_missing_facts(text, facts, size - byte_size(text))


def _sections_within(
    pieces: Sequence[Passage], facts: Sequence[Fact], wishes: Sequence[str], size: int
) -> str:
    """Return the sections; what a section leaves of its share goes to the next important one."""
    children = [one.text for one in pieces if one.kind == "summary"]
    lines = merged_sections(children) if children else _section_lines(pieces, facts, wishes)
    sections: dict[str, str] = {}
    spare = 0
    for title, share in _SHARES.items():
        room = int(size * share) + spare
        sections[title] = _section(title, lines.get(title, iter(())), room)
        spare = room - byte_size(sections[title]) - 1 if sections[title] else room
    return "\n".join(filter(None, (sections[title] for title in _ORDER)))


def _section(title: str, lines: Iterator[str], room: int) -> str:
    """Return as many lines as fit; prose that does not fit by itself is cut, a name never is."""
    kept: list[str] = []
    room -= byte_size(title) + 1
    for line in dict.fromkeys(lines):
        room -= byte_size(line) + 3
        if room < 0:
            if not kept and title in _PROSE and room + byte_size(line) >= _LEAST_PROSE:
                kept = list(filter(None, [clip_middle(line, room + byte_size(line), " … ")]))
            break
        kept.append(line)
    return "\n".join((f"{title}:", *(f"- {line}" for line in kept))) if kept else ""


def _section_lines(
    pieces: Sequence[Passage], facts: Sequence[Fact], wishes: Sequence[str]
) -> dict[str, Iterator[str]]:
    """Return the lines that each section may have, the most important ones first."""
    asked = [one_line(one.text) for one in pieces if one.kind == "user"]
    goal = next((text for text in asked if is_telling(text)), "")
    # What stands among the user's words need not be said twice.
    goals = [] if all(wish in wishes for wish in sentences(goal)) else [goal]
    newest = next((one for one in reversed(pieces) if one.kind == "assistant"), None)
    return {
        "Goal": (clip_middle(text, 600, " … ") for text in goals),
        "Found": findings([one for one in pieces if one is not newest], facts),
        "Decisions": decisions(pieces),
        "Files": (fact.text for fact in facts if fact.kind == "path"),
        "Commands": _commands(pieces, facts),
        "Errors": (fact.text for fact in facts if fact.kind == "error"),
        "Newest state": (clip_middle(one_line(one.text), 800, " … ") for one in (newest,) if one),
        "Open": (fact.text for fact in facts if fact.kind == "task"),
    }


def findings(pieces: Sequence[Passage], facts: Sequence[Fact]) -> Iterator[str]:
    """Return the sentences that have facts, those with the most first."""
    names = [fact for fact in facts if fact.kind in _FOUND_IN]
    weighed: dict[str, int] = {}
    for one in without_listings(pieces):
        if one.kind not in ("assistant", "result", "summary") or is_echo(one):
            continue
        for sentence in filter(_is_finding, _told(one)):
            found = len(names) - len(missing_facts(names, sentence))
            # The agent says what matters; an output only where it has a fact nobody told.
            weighed[sentence] = found if one.kind == "result" else 2 * found
    yield from sorted((one for one in weighed if weighed[one]), key=lambda one: -weighed[one])


def _told(one: Passage) -> Iterator[str]:
    """Return the sentences of a passage; those of a summary may be lines of a list."""
    for sentence in sentences(prose(one.text)):
        yield sentence.removeprefix("- ") if one.kind == "summary" else sentence


def _is_finding(sentence: str) -> bool:
    """Tell what may have been found out from code, and from a decision."""
    is_short = byte_size(sentence) <= _FINDING_BYTES
    return is_short and not looks_like_code(sentence) and not _REASON.search(sentence)


def _commands(pieces: Sequence[Passage], facts: Sequence[Fact]) -> Iterator[str]:
    """Return commands with their status: those that failed first, then the newest others."""
    yield from (fact.text for fact in facts if fact.kind == "failure")
    for one in reversed(pieces):
        if one.kind == "result" and one.about and one.status != STATUS_NOT_REPORTED:
            yield f"{clip(one_line(one.about), 80)}: {one.status}"


def decisions(pieces: Sequence[Passage]) -> Iterator[str]:
    """Return sentences that give a reason, or say what was decided."""
    for one in pieces:
        if one.kind in ("user", "assistant", "thought", "summary"):
            yield from (clip(text, 240) for text in _told(one) if _REASON.search(text))
