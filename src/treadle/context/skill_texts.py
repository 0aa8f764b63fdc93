"""Skill texts: the bodies of skills that a view has, read from its rows.

Owns how they are recognised, and which of them a new base tells again. Because they come from
the log, no compaction can lose the instructions that the work goes by. Invariant: a pure
function of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Raw

from ..core.entries import Flags, FragmentMark, Inline, RecipePart
from ..core.items import FunctionCall, FunctionCallOutput, Message, encode_item, text_of
from ..prompt.fragment import Vocabulary
from ..prompt.skill_fragments import Skill, SkillText, read_skill_text
from .row import Row
from .tokens import estimate_item

__all__ = ["MOST_TOLD_AGAIN", "TOOL_NAME", "skill_texts", "tell_again"]

TOOL_NAME = "skill"
"""The tool by which a model loads one."""

MOST_TOLD_AGAIN = 25_000
"""Tokens of all texts that a new base tells again, where the window is large."""

_CALLS = frozenset(("function_call", "function_call_output"))


def skill_texts(rows: Iterable[Row]) -> list[SkillText]:
    """Return the texts of skills in some rows, in their order."""
    calls: set[str] = set()
    found = (_text_of_row(row, calls) for row in rows)
    return [text for text in found if text is not None]


def tell_again(
    gone: Sequence[Row], kept: Sequence[Row], vocabulary: Vocabulary, budget: int
) -> list[RecipePart]:
    """Return the newest text of each skill that a new base would lose, oldest first.

    All of them together take `budget` tokens at most; the newest come first.
    """
    newest: dict[str, SkillText] = {}
    for each in reversed(skill_texts(gone)):
        newest.setdefault(each.name, each)
    held = {each.name for each in skill_texts(kept)} if newest else set()
    told: list[RecipePart] = []
    for name, text in newest.items():
        if name in held:
            continue
        message = text.fragment().message(vocabulary)
        body = encode_item(message)
        tokens = estimate_item(message, len(body))
        budget -= tokens
        if budget < 0:
            break
        marks = (FragmentMark(id=Skill.id, part=0),)
        flags = int(Flags.CONTEXTUAL)
        told.append(Inline(body=Raw(body), tokens=tokens, flags=flags, fragments=marks))
    return told[::-1]


def _text_of_row(row: Row, calls: set[str]) -> SkillText | None:
    if row.contextual:
        if not any(mark.id == Skill.id for mark in row.fragments):
            return None
        return read_skill_text(text_of(row.item.content)) if isinstance(row.item, Message) else None
    if row.shape.type not in _CALLS or not _is_of_tool(row, calls):
        return None
    item = row.item
    return read_skill_text(text_of(item.output)) if isinstance(item, FunctionCallOutput) else None


def _is_of_tool(row: Row, calls: set[str]) -> bool:
    """Return whether a row calls the tool, or answers a call of it."""
    call_id = row.shape.call_id or ""
    if row.shape.type == "function_call" and b'"skill"' in row.body:
        item = row.item
        if isinstance(item, FunctionCall) and item.name == TOOL_NAME:
            calls.add(call_id)
    return call_id in calls
