"""Rules: how long hooks of an event may take, and what becomes of it when they fail.

Owns one rule per event. Invariant: where a hook decides whether something happens, one
that hangs or fails has said no; everywhere else it is logged and left out.
"""

from __future__ import annotations

from msgspec import Struct

from .payloads import (
    AfterCompaction,
    AfterToolCall,
    BeforeCompaction,
    BeforePromptBuild,
    BeforeToolCall,
    Payload,
    ThreadStarted,
    ToolResultReady,
    TurnEnded,
    TurnStarted,
)

__all__ = ["LONGEST", "RULES", "Rule"]

LONGEST = 600.0
"""Seconds that no hook may go beyond, whatever it was given."""


class Rule(Struct, frozen=True, kw_only=True):
    """How the hooks of an event are run."""

    seconds: float
    """How long each may take, unless its registration says otherwise."""
    closed: bool = False
    """Whether one that hangs or fails keeps the thing from happening."""
    together: bool = False
    """Whether they run side by side: they only look."""


RULES: dict[type[Payload], Rule] = {
    ThreadStarted: Rule(seconds=15),
    BeforePromptBuild: Rule(seconds=15),
    BeforeToolCall: Rule(seconds=15, closed=True),
    ToolResultReady: Rule(seconds=15),
    BeforeCompaction: Rule(seconds=30, closed=True),
    AfterToolCall: Rule(seconds=30, together=True),
    AfterCompaction: Rule(seconds=30, together=True),
    TurnStarted: Rule(seconds=30, together=True),
    TurnEnded: Rule(seconds=30, together=True),
}
