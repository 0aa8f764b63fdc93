"""Developer instructions: what the host or the user's settings ask of the model.

Owns a text without markers. Invariant: it stands first in the first developer
message, and cannot start as another fragment.
"""

from __future__ import annotations

from typing import ClassVar

from .fragment import FragmentRole
from .observation import PromptContext
from .text import TextFragment, TextState

__all__ = ["DeveloperInstructions", "DeveloperInstructionsState"]


class DeveloperInstructions(TextFragment, frozen=True):
    """The instructions, as they were given."""

    id: ClassVar[str] = "developer_instructions"
    role: ClassVar[FragmentRole] = "developer"
    cap_tokens: ClassVar[int] = 9_500
    replaced: ClassVar[str] = "These developer instructions replace all that were given earlier:"
    removed: ClassVar[str] = (
        "The developer instructions given earlier are gone and no longer apply."
    )


class DeveloperInstructionsState(TextState):
    """Tells the developer instructions."""

    id = DeveloperInstructions.id
    fragment = DeveloperInstructions
    fragments = (DeveloperInstructions,)

    def text(self, ctx: PromptContext) -> str | None:
        """The instructions in `ctx`."""
        return ctx.developer_instructions
