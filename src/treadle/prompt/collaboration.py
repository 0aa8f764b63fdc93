"""Collaboration mode: how the user and the model share the work, planning first or not.

Owns `<collaboration_mode>` and the words of plan mode. Invariant: the mode told
last is the one that holds, and leaving a mode is told too.
"""

from __future__ import annotations

from typing import ClassVar

from .fragment import FragmentRole, Markers
from .observation import PromptContext
from .text import TextFragment, TextState

__all__ = ["Collaboration", "CollaborationState"]

_PLAN = """\
Plan mode is on. Work out what should be done and leave everything as it is:
- Read, search and run whatever changes nothing. Write no files, apply no patches, install nothing.
- Settle from the code what the code can settle. Ask the user only what is theirs to decide.
- End with one plan that somebody else could carry out: the goal, the steps in order, the files
  they touch, how each is checked, and what stays open.
A request to start the work is a request for the plan of that work, until this mode ends."""


class Collaboration(TextFragment, frozen=True):
    """The mode's instructions."""

    id: ClassVar[str] = "collaboration_mode"
    role: ClassVar[FragmentRole] = "developer"
    markers: ClassVar[Markers | None] = Markers("<collaboration_mode>", "</collaboration_mode>")
    cap_tokens: ClassVar[int] = 4_000
    replaced: ClassVar[str] = "The collaboration mode has changed. From now on:"
    removed: ClassVar[str] = "The earlier collaboration mode has ended. Work as usual."


class CollaborationState(TextState):
    """Tells the collaboration mode; ``default`` without instructions counts as none."""

    id = Collaboration.id
    fragment = Collaboration
    fragments = (Collaboration,)

    def text(self, ctx: PromptContext) -> str | None:
        """The instructions of the mode in `ctx`."""
        mode = ctx.collaboration_mode
        if mode is None or mode.instructions.strip():
            return mode.instructions if mode else None
        if mode.name == "plan":
            return _PLAN
        return None if mode.name == "default" else f"The collaboration mode is `{mode.name}`."
