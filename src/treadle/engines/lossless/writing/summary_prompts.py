"""Write the requests for summaries: the instructions, and a source as text.

Owns our prompts, one Markdown file each, their versions, how a source is laid out and how
much of each passage is shown. Invariants: data stands in elements that it cannot close;
whatever the source holds, only our own headings pieces as headings; every result shows its
status, and an error in a part that was cut is shown below it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from ....prompt.markers import Markers, Vocabulary
from ....prompt.registry import builtin_vocabulary
from .clipping import clip, clip_middle, one_line
from .key_facts import Fact
from .passages import Passage, PassageKind, error_lines, passages, patched_files
from .source import EXPAND, SummarySource

__all__ = [
    "TASKS",
    "SummaryPrompt",
    "amend_request",
    "prompt_for",
    "render_passages",
    "render_source",
    "summary_request",
]

_VERSION = 2
_PROMPTS = Path(__file__).with_name("prompts")
_PREVIOUS_BYTES = 8_000
_HEADING = "==="

_SHOWN_BYTES: dict[PassageKind, int] = {
    "user": 6_000,
    "assistant": 4_000,
    "call": 1_600,
    "result": 2_400,
    "thought": 1_200,
    "summary": 24_000,
    "other": 2_000,
}
"""Bytes of a passage that are shown."""

_ABOUT_BYTES = 200
_MOST_RESCUED = 6
_GAP = "\n… cut …\n"

_DRAFT = "This draft was written before:"
_LOST = "It lost the following:"
_AGAIN = (
    "Write it again, as short as it is, with each of these word for word: where it belongs "
    "if it matters, or else in the last line."
)
_KEEP = (
    "These were found in the source. Each must stand in your answer word for word,\n"
    "where it belongs if it matters, or else in the last line:"
)
TASKS = f"\n{_DRAFT}\n{_LOST}\n{_AGAIN}\n{_KEEP}"
"""What a request says beside its source; none of it belongs in an answer."""


class SummaryPrompt(Struct, frozen=True):
    """The instructions of a model that writes a summary."""

    version: str
    instructions: str


def prompt_for(depth: int, *, strict: bool = False) -> SummaryPrompt:
    """Return the prompt for a node of that depth; `strict` is for a second, shorter try."""
    name = ("leaf", "condensed", "arc")[min(depth, 2)]
    if not strict:
        return SummaryPrompt(f"{name}-{_VERSION}", _text(name))
    return SummaryPrompt(f"{name}-strict-{_VERSION}", f"{_text(name)}\n\n{_text('strict')}")


def summary_request(shown: str, *, previous: str, facts: Sequence[Fact], target: int) -> str:
    """Return the request for a summary of `shown`, which is quoted already."""
    before = _quote(clip_middle(previous, _PREVIOUS_BYTES))
    if before:
        before = f"<previous_summary>\n{before}\n</previous_summary>"
    words = target * 3 // 4
    task = f"Summarise the source now, in at most {target} tokens (about {words} words)."
    return "\n\n".join(
        filter(None, (before, f"<source>\n{shown}\n</source>", _must_keep(facts), task))
    )


def amend_request(request: str, draft: str, lost: Sequence[Fact]) -> str:
    """Return the request to write a draft again that lost some facts."""
    return (
        f"{request}\n\n{_DRAFT}\n<draft>\n{_quote(draft)}\n</draft>\n\n"
        f"{_LOST}\n{_fact_list(lost)}\n\n{_AGAIN}"
    )


def _must_keep(facts: Sequence[Fact]) -> str:
    if not facts:
        return ""
    return f"{_KEEP}\n<must_keep>\n{_fact_list(facts)}\n</must_keep>"


def _fact_list(facts: Sequence[Fact]) -> str:
    return "\n".join(f"- {_quote(fact.text)}" for fact in facts)


@functools.cache
def _text(name: str) -> str:
    return (_PROMPTS / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


def render_source(source: SummarySource) -> str:
    """Return a source as text, a block for each passage."""
    return render_passages(passages(source))


def render_passages(pieces: tuple[Passage, ...]) -> str:
    """Return passages as text, a block for each."""
    nodes = sum(passage.kind == "summary" for passage in pieces)
    blocks, number = [], 0
    for passage in pieces:
        number += passage.kind == "summary"
        heading = f"summary {number} of {nodes}" if passage.kind == "summary" else _heading(passage)
        blocks.append(f"{_HEADING} {heading}\n{_quote(_body(passage))}".rstrip())
    return "\n\n".join(blocks)


def _quote(text: str) -> str:
    """Return `text` with nothing in it that reads as a marker or heading of ours."""
    return _quoting_vocabulary().quote(text)


@functools.cache
def _quoting_vocabulary() -> Vocabulary:
    """Return the markers of fragments and of these prompts."""
    words = builtin_vocabulary()
    for own in (
        Markers("<source>", "</source>"),
        Markers("<previous_summary>", "</previous_summary>"),
        Markers("<must_keep>", "</must_keep>"),
        Markers("<draft>", "</draft>"),
        Markers(_HEADING, ""),
        Markers(EXPAND, ""),
    ):
        words = words.with_own(own, ())
    return words


def _heading(passage: Passage) -> str:
    about = _quote(clip(one_line(passage.about), _ABOUT_BYTES))
    name = _quote(clip(one_line(passage.name), _ABOUT_BYTES))
    match passage.kind:
        case "call":
            return f"call of {name}"
        case "result":
            of = " ".join(filter(None, ("result of", name or "a call")))
            return f"{of}{f': {about}' if about else ''} [{_quote(passage.status)}]"
        case "other":
            return name or "other"
        case "thought":
            return "assistant, thinking"
        case kind:
            return kind


def _body(passage: Passage) -> str:
    if passage.kind == "summary":
        # Its own expand line is data here; only the new summary may end with one.
        return clip_middle(_with_expand_line_as_data(passage.text), _SHOWN_BYTES["summary"], _GAP)
    kept = clip_middle(passage.text, _SHOWN_BYTES[passage.kind], _GAP)
    if kept == passage.text:
        return kept
    rescued = _lines_to_rescue(passage, kept)
    return "\n".join((kept, *(["Also in it:"] if rescued else []), *rescued))


def _lines_to_rescue(passage: Passage, kept: str) -> list[str]:
    """Return lines of the part that was cut which must not be lost."""
    if passage.kind == "call":
        lines = patched_files(passage.text)
    else:
        errors = error_lines(passage.text, passage.status)
        lines = list(dict.fromkeys(errors)) if passage.kind == "result" else []
    lost = [line for line in lines if line.rstrip("…") not in kept]
    return (
        lost
        if len(lost) <= _MOST_RESCUED
        else [*lost[: _MOST_RESCUED // 2], *lost[-_MOST_RESCUED // 2 :]]
    )


def _with_expand_line_as_data(text: str) -> str:
    body, line, rest = text.rpartition(f"\n{EXPAND}")
    return f"{body}\nNot in this summary, but under it:{rest}" if line else text
