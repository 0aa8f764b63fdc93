"""Personality: the manner in which the model speaks to the user.

Owns `<personality_spec>`. Invariant: it is about tone only and says so when it
changes, so that no task instruction is taken back with it.
"""

from __future__ import annotations

from typing import ClassVar

from .fragment import FragmentRole, Markers
from .observation import PromptContext
from .text import TextFragment, TextState

__all__ = ["Personality", "PersonalityState"]


class Personality(TextFragment, frozen=True):
    """The manner the user asked for."""

    id: ClassVar[str] = "personality"
    role: ClassVar[FragmentRole] = "developer"
    markers: ClassVar[Markers | None] = Markers("<personality_spec>", "</personality_spec>")
    cap_tokens: ClassVar[int] = 1_000
    replaced: ClassVar[str] = (
        "The user asked for another manner of speaking. From now on, in tone only:"
    )
    removed: ClassVar[str] = (
        "The user no longer asks for a particular manner of speaking; use your own."
    )


class PersonalityState(TextState):
    """Tells the personality."""

    id = Personality.id
    fragment = Personality
    fragments = (Personality,)

    def text(self, ctx: PromptContext) -> str | None:
        """The personality in `ctx`."""
        return ctx.personality
