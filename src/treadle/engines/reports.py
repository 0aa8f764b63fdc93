"""Reports: what an engine did, for people who debug one.

Owns the shape of the events that the lifecycle raises. Invariant: counts and names,
never a word of a prompt or of a conversation.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["Action", "EngineReported"]

Action: TypeAlias = Literal[
    "bootstrap.started",
    "bootstrap.completed",
    "bootstrap.failed",
    "assemble.applied",
    "assemble.failed",
    "finalise.completed",
    "finalise.failed",
    "maintenance.run",
    "maintenance.skipped",
    "maintenance.failed",
    "compaction.completed",
    "compaction.failed",
    "degraded",
]


class EngineReported(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="engine"):
    """Something an engine was asked for, and what came of it."""

    action: Action
    thread: str
    turn: int
    engine: str
    items: int | None = None
    """How many items were assembled, handed over or folded."""
    tokens: int | None = None
    """Their estimated size."""
    has_addition: bool | None = None
    """Whether the engine adds guidance to the prompt."""
    reason: str = ""
