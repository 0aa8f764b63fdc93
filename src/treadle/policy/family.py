"""Families: which base instructions and tools a thread's model gets.

Owns the choice between the full ones and the short ones for small windows. Invariant: a model
keeps what a thread began with, whatever is learned of its window later; the head says what that
was.
"""

from __future__ import annotations

from ..core.entries import Head
from ..models.profile import ModelProfile
from ..prompt.instructions import FAMILIES

__all__ = ["SMALL", "decide_family"]

SMALL = "small"
"""The family with short instructions and few tools."""

_FULL = "general"


def decide_family(profile: ModelProfile, chosen: str, head: Head | None) -> str:
    """Return the family for the model of `profile`.

    `chosen` is what the user's settings say: a family, ``auto``, or a text of their own. `head`
    is that of the newest request, if there is one.
    """
    wanted = chosen if chosen in FAMILIES else profile.family
    if head is None or (head.provider, head.model) != (profile.provider, profile.slug):
        return wanted
    if head.family == SMALL:
        return SMALL
    return _FULL if wanted == SMALL else wanted
