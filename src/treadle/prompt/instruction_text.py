"""The developer instructions of a thread as one text.

Owns which states they are: what the host demands, and how to use what the engine keeps. Invariant:
the text is what a conversation says that starts with these states now.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..core.items import text_of
from ..core.wire import Json
from .context_changes import context_update
from .engine_fragments import GuidanceState
from .registry import Registry
from .standing_instructions import DeveloperInstructionsState

__all__ = ["INSTRUCTION_STATES", "instruction_text"]

INSTRUCTION_STATES: tuple[str, ...] = (DeveloperInstructionsState.id, GuidanceState.id)
"""The states that are developer instructions."""


def instruction_text(registry: Registry, snapshots: Mapping[str, Json | None]) -> str:
    """Return the instructions among the snapshots of a thread's states; empty without any."""
    states = {name: found for name in INSTRUCTION_STATES if (found := snapshots.get(name))}
    if not states:
        return ""
    messages = context_update(registry, {}, states).messages
    return "\n\n".join(text_of(each.message.content) for each in messages)
