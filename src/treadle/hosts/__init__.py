"""Hosts: what runs threads that nobody sits in front of.

Workers that take waiting turns, the same on DBOS and on Temporal, and watching a thread that
another process runs. Invariant: a host decides when and where a turn runs, and never what a turn
is: that is the thread's log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .live import LiveFeed
    from .watch import Watched, watch_thread
    from .worker import Worker, WorkerBounds

__all__ = ["LiveFeed", "Watched", "Worker", "WorkerBounds", "watch_thread"]

__getattr__ = lazy_attributes(
    __name__,
    {
        "live": "LiveFeed",
        "watch": "Watched watch_thread",
        "worker": "Worker WorkerBounds",
    },
)
