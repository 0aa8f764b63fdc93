"""The catalogue: as many skills as fit into the model's list of them.

Owns the budget. Invariants: the list takes no more than its share of the window, in bytes as
they are sent, whatever script it is written in; descriptions are cut before a skill is left
out, all to the same length; names and places are never cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..core.text import BYTES_PER_TOKEN, approx_tokens
from ..prompt.machine import printable
from ..prompt.prompt_context import ListedSkill
from ..prompt.skill_fragments import LISTED_OVERHEAD, listed_line
from .skill_file import SkillFile, short_digest

__all__ = ["SHARE", "Catalogue", "build_catalogue", "catalogue_tokens"]

SHARE = 0.02
"""The part of a window that the list may take."""

_UNKNOWN_WINDOW = 2_000
_MOST_TOKENS = 9_500
_LENGTHS = (4_096, 512, 256, 128, 64, 0)
"""Bytes of a description; the first length with which all skills fit is used."""


class Catalogue(Struct, frozen=True):
    """What is listed, and what is not."""

    listed: tuple[ListedSkill, ...] = ()
    shortened: bool = False
    """Whether descriptions were cut so that all fit."""
    left_out: tuple[str, ...] = ()
    """The names of skills that do not fit at all."""
    budget: int = 0
    """Tokens that the list may take."""

    @property
    def tokens(self) -> int:
        """Return about what the list costs."""
        return catalogue_tokens(self.listed)


def build_catalogue(skills: Sequence[SkillFile], window: int | None) -> Catalogue:
    """Return the list for a model with this context window."""
    budget = int(window * SHARE) if window else _UNKNOWN_WINDOW
    budget = min(budget, _MOST_TOKENS)
    offered = [each for each in skills if each.for_model]
    for length in _LENGTHS:
        listed = [_list_skill(each, length) for each in offered]
        if catalogue_tokens(listed) <= budget:
            return Catalogue(tuple(listed), shortened=length < _LENGTHS[0], budget=budget)
    kept: list[ListedSkill] = []
    left = budget * BYTES_PER_TOKEN - LISTED_OVERHEAD
    for each in listed:
        left -= _line_bytes(each)
        if left < 0:
            break
        kept.append(each)
    left_out = tuple(each.name for each in offered[len(kept) :])
    return Catalogue(tuple(kept), shortened=True, left_out=left_out, budget=budget)


def catalogue_tokens(listed: Sequence[ListedSkill]) -> int:
    """Return about what a list costs; nothing where it is empty."""
    if not listed:
        return 0
    return approx_tokens(LISTED_OVERHEAD + sum(map(_line_bytes, listed)))


def _line_bytes(skill: ListedSkill) -> int:
    # A quoted character takes three bytes more.
    line = listed_line(skill)
    return len(line.encode()) + 3 * line.count("<") + 1


def _list_skill(skill: SkillFile, length: int) -> ListedSkill:
    return ListedSkill(
        name=skill.name,
        description=_cut(skill.description, length),
        path=printable(skill.path),
        digest=short_digest(skill.digest),
    )


def _cut(text: str, length: int) -> str:
    data = text.encode()
    if len(data) <= length:
        return text
    kept = data[: max(length - 3, 0)].decode(errors="ignore").rstrip()
    return f"{kept}…" if kept else ""
