"""Unanswered input: what a model is told before the message that follows one it never answered.

Owns `<unanswered_input>`. Invariant: the earlier message stays where it is, word for
word; this only says how it is to be taken.
"""

from __future__ import annotations

from typing import ClassVar

from .fragment import Fragment, FragmentRole, Markers

__all__ = ["Unanswered"]


class Unanswered(Fragment, frozen=True):
    """The last message of the user's above has no answer, and gets none now."""

    id: ClassVar[str] = "unanswered_input"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<unanswered_input>", "</unanswered_input>")
    cap_tokens: ClassVar[int] = 100

    def body(self) -> str:
        """What to make of it."""
        return (
            "\nThe last user message above came in a turn that ended without an answer. "
            "It is kept as context only; go on with the message below.\n"
        )
