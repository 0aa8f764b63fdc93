"""Showing: a source as the text that a model summarises.

Owns its layout and how much of each passage is shown. Invariant: whatever the source
holds, only our own headings read as headings, every result shows its status, and an
error that stands in a part that was cut is shown below it.
"""

from __future__ import annotations

import functools

from ....prompt.markers import Markers, Vocabulary
from ....prompt.registry import builtin_vocabulary
from .clipping import clip, clip_middle, on_one_line
from .outcomes import error_lines
from .passages import Kind, Passage, passages, patched
from .source import EXPAND, Source

__all__ = ["quoted", "shown", "source_text"]

HEADING = "==="

_SHOWN: dict[Kind, int] = {
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
_RESCUED = 6
_GAP = "\n… cut …\n"


def source_text(source: Source) -> str:
    """The source, a block for each passage."""
    return shown(passages(source))


def shown(read: tuple[Passage, ...]) -> str:
    """Passages as text, a block for each."""
    nodes = sum(passage.kind == "summary" for passage in read)
    blocks, number = [], 0
    for passage in read:
        number += passage.kind == "summary"
        heading = f"summary {number} of {nodes}" if passage.kind == "summary" else _heading(passage)
        blocks.append(f"{HEADING} {heading}\n{quoted(_body(passage))}".rstrip())
    return "\n\n".join(blocks)


def quoted(text: str) -> str:
    """`text` with nothing in it that reads as a marker or heading of ours."""
    return _guarded().quote(text)


@functools.cache
def _guarded() -> Vocabulary:
    """The markers of fragments, and those of the prompts that ask for summaries."""
    words = builtin_vocabulary()
    for own in (
        Markers("<source>", "</source>"),
        Markers("<previous_summary>", "</previous_summary>"),
        Markers("<must_keep>", "</must_keep>"),
        Markers("<draft>", "</draft>"),
        Markers(HEADING, ""),
        Markers(EXPAND, ""),
    ):
        words = words.with_own(own, ())
    return words


def _heading(passage: Passage) -> str:
    about = quoted(clip(on_one_line(passage.about), _ABOUT_BYTES))
    name = quoted(clip(on_one_line(passage.name), _ABOUT_BYTES))
    match passage.kind:
        case "call":
            return f"call of {name}"
        case "result":
            of = " ".join(filter(None, ("result of", name or "a call")))
            return f"{of}{f': {about}' if about else ''} [{quoted(passage.status)}]"
        case "other":
            return name or "other"
        case "thought":
            return "assistant, thinking"
        case kind:
            return kind


def _body(passage: Passage) -> str:
    if passage.kind == "summary":
        # Its own last line is data here; the line that ends ours must be the only one.
        return clip_middle(_without_expand(passage.text), _SHOWN["summary"], _GAP)
    kept = clip_middle(passage.text, _SHOWN[passage.kind], _GAP)
    if kept == passage.text:
        return kept
    rescued = _rescued(passage, kept)
    return "\n".join((kept, *(["Also in it:"] if rescued else []), *rescued))


def _rescued(passage: Passage, kept: str) -> list[str]:
    """Lines of the part that was cut which must not be lost."""
    if passage.kind == "call":
        lines = patched(passage.text)
    else:
        told = error_lines(passage.text, passage.status)
        lines = list(dict.fromkeys(told)) if passage.kind == "result" else []
    lost = [line for line in lines if line.rstrip("…") not in kept]
    return lost if len(lost) <= _RESCUED else [*lost[: _RESCUED // 2], *lost[-_RESCUED // 2 :]]


def _without_expand(text: str) -> str:
    body, line, rest = text.rpartition(f"\n{EXPAND}")
    return f"{body}\nNot in this summary, but under it:{rest}" if line else text
