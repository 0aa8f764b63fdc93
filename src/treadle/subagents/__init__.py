"""Subagents: threads that work for another thread, and messages between threads.

Owns starting agents, running their tasks, announcing the results, and recovering both
after a crash. Invariant: for each recorded task the parent gets exactly one announcement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .access import ThreadAccess
    from .agent_run import SharedExecutor
    from .definition import AgentDefinition
    from .kinds import AgentKinds
    from .mail import post_message
    from .pool import Subagents
    from .records import AgentLimits, Lineage, SpawnWatcher, can_spawn, lineage_of, listed_agents

__all__ = [
    "AgentDefinition",
    "AgentKinds",
    "AgentLimits",
    "Lineage",
    "SharedExecutor",
    "SpawnWatcher",
    "Subagents",
    "ThreadAccess",
    "can_spawn",
    "lineage_of",
    "listed_agents",
    "post_message",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "access": "ThreadAccess",
        "agent_run": "SharedExecutor",
        "definition": "AgentDefinition",
        "kinds": "AgentKinds",
        "mail": "post_message",
        "pool": "Subagents",
        "records": "AgentLimits Lineage SpawnWatcher can_spawn lineage_of listed_agents",
    },
)
