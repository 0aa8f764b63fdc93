"""Guidance: what a context engine adds to the prompt.

Owns `<engine_guidance>`. Invariant: a changed guidance is appended and says that
it replaces the earlier one; the earlier one stays where it was sent.
"""

from __future__ import annotations

from typing import ClassVar

from .fragment import FragmentRole, Markers
from .observation import PromptContext
from .text import TextFragment, TextState

__all__ = ["Guidance", "GuidanceState"]


class Guidance(TextFragment, frozen=True):
    """How to use what the engine keeps and recalls."""

    id: ClassVar[str] = "guidance"
    role: ClassVar[FragmentRole] = "developer"
    markers: ClassVar[Markers | None] = Markers("<engine_guidance>", "</engine_guidance>")
    cap_tokens: ClassVar[int] = 4_000
    replaced: ClassVar[str] = "This guidance replaces the earlier one:"
    removed: ClassVar[str] = "The earlier guidance no longer applies."


class GuidanceState(TextState):
    """Tells the engine's guidance."""

    id = Guidance.id
    fragment = Guidance
    fragments = (Guidance,)

    def text(self, ctx: PromptContext) -> str | None:
        """The guidance in `ctx`."""
        return ctx.guidance
