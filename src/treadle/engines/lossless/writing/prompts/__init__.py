"""Prompts: what a model is told when it writes a summary.

Owns our own texts, one Markdown file each, their versions, and how a request is laid out
around its data. Invariant: data stands in elements that it cannot close, and what is
asked of the model stands outside of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from ..clipping import clip_middle
from ..facts import Fact
from ..showing import quoted

__all__ = ["Prompt", "amend_request", "prompt_for", "request"]

_VERSION = 1
_PREVIOUS_BYTES = 8_000


class Prompt(Struct, frozen=True):
    """What a model is told about its task."""

    version: str
    instructions: str


def prompt_for(depth: int, *, strict: bool = False) -> Prompt:
    """The prompt for a node of that depth; `strict` is for one that came out too long."""
    name = ("leaf", "condensed", "arc")[min(depth, 2)]
    if not strict:
        return Prompt(f"{name}-{_VERSION}", _text(name))
    return Prompt(f"{name}-strict-{_VERSION}", f"{_text(name)}\n\n{_text('strict')}")


def request(shown: str, *, previous: str, facts: Sequence[Fact], target: int) -> str:
    """What is to be summarised, and what it may not lose; `shown` is quoted already."""
    before = quoted(clip_middle(previous, _PREVIOUS_BYTES))
    if before:
        before = f"<previous_summary>\n{before}\n</previous_summary>"
    words = target * 3 // 4
    task = f"Summarise the source now, in at most {target} tokens (about {words} words)."
    return "\n\n".join(filter(None, (before, f"<source>\n{shown}\n</source>", _kept(facts), task)))


def amend_request(asked: str, draft: str, lost: Sequence[Fact]) -> str:
    """Asks once more for a summary that lost something."""
    return (
        f"{asked}\n\nThis draft was written before:\n<draft>\n{quoted(draft)}\n</draft>\n\n"
        f"It lost the following:\n{_listed(lost)}\n\n"
        "Write it again, as short as it is, with each of these word for word: where it belongs "
        "if it matters, or else in the last line."
    )


def _kept(facts: Sequence[Fact]) -> str:
    if not facts:
        return ""
    return (
        "These were found in the source. Each must stand in your answer word for word,\n"
        "where it belongs if it matters, or else in the last line:\n"
        f"<must_keep>\n{_listed(facts)}\n</must_keep>"
    )


def _listed(facts: Sequence[Fact]) -> str:
    return "\n".join(f"- {quoted(fact.text)}" for fact in facts)


@cache
def _text(name: str) -> str:
    file = Path(__file__).with_name(f"{name}.md")
    return file.read_text(encoding="utf-8").rstrip("\n")
