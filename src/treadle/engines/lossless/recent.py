"""Recent: what is remembered of threads, as long as few enough are served.

Owns the bound on it. Invariant: an engine that serves many threads for a long time does
not grow with them; whoever was quiet longest is forgotten first.
"""

from __future__ import annotations

from typing import TypeVar

__all__ = ["MOST", "Recent"]

MOST = 256
"""How many threads are remembered."""

V = TypeVar("V")


class Recent(dict[str, V]):
    """A dict by thread that forgets the thread that was written longest ago."""

    def __setitem__(self, thread: str, value: V) -> None:
        self.pop(thread, None)
        super().__setitem__(thread, value)
        if len(self) > MOST:
            del self[next(iter(self))]
