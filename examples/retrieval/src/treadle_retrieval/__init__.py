"""Retrieval: a context engine that finds what was said before a compaction.

Owns what the entry point names. Invariant: everything it keeps lies in one file in
the home it is given.
"""

from __future__ import annotations

from treadle.engines.loading import EngineContext

from .engine import RetrievalEngine
from .memory import Memory

__all__ = ["RetrievalEngine", "engine"]


def engine(context: EngineContext) -> RetrievalEngine:
    """The engine; where it has no home its memory ends with it."""
    return RetrievalEngine(Memory(context.home and context.home / "memory.db"))
