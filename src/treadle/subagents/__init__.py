"""Subagents: threads that work for another thread, and messages between threads.

Owns spawning, the work of a child from order to announcement, and what is left of both
after a crash. Invariant: for each order that was recorded, the parent gets exactly one
announcement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .crew import Subagents
    from .kinship import Kinship
    from .lent import Lent
    from .mail import post_message
    from .values import AgentLimits, Descent, SpawnWatcher, descent_of, may_spawn, told_of

__all__ = [
    "AgentLimits",
    "Descent",
    "Kinship",
    "Lent",
    "SpawnWatcher",
    "Subagents",
    "descent_of",
    "may_spawn",
    "post_message",
    "told_of",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "crew": "Subagents",
        "kinship": "Kinship",
        "lent": "Lent",
        "mail": "post_message",
        "values": "AgentLimits Descent SpawnWatcher descent_of may_spawn told_of",
    },
)
