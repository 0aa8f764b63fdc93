"""The home that is served, and what it hands out.

Owns the interface between the protocol and the place where threads live, and the values that
clients read. Invariant: only `open_thread` leads to anything that is written.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from ..thread.thread import Thread
from .tool_arguments import ExpandArguments, SearchArguments, ShowArguments, TurnArguments

__all__ = [
    "AgentHome",
    "FoundEntries",
    "FoundRecord",
    "ReadEntries",
    "ReadEntry",
    "ShownEntry",
    "ShownThread",
    "ThreadList",
    "ThreadSummary",
    "TurnReport",
    "TurnStatus",
]

TurnStatus: TypeAlias = Literal["running", "completed", "failed", "interrupted"]


class TurnReport(Struct, frozen=True, kw_only=True):
    """How a turn ended, or that it runs."""

    thread: str
    turn: str
    status: TurnStatus
    text: str = ""
    error: str = ""


class ThreadSummary(Struct, frozen=True, kw_only=True):
    """A thread in a list; times are milliseconds since 1970."""

    id: str
    name: str
    cwd: str
    turns: int
    entries: int
    created: int
    updated: int


class ThreadList(Struct, frozen=True):
    """Threads, the most recently written first."""

    threads: list[ThreadSummary]
    more: bool = False


class ShownEntry(Struct, frozen=True, kw_only=True):
    """An entry as people read it."""

    id: str
    heading: str
    text: str


class ShownThread(Struct, frozen=True, kw_only=True):
    """A thread as people read it."""

    thread: ThreadSummary
    entries: list[ShownEntry]


class FoundRecord(Struct, frozen=True, kw_only=True):
    """An entry that a search found."""

    id: str
    thread: str
    turn: int
    time: int
    role: str
    snippet: str


class FoundEntries(Struct, frozen=True):
    """What a search found, the best first."""

    items: list[FoundRecord]
    note: str = ""


class ReadEntry(Struct, frozen=True, kw_only=True):
    """An entry, or the part of it that fits."""

    id: str
    turn: int
    time: int
    role: str
    text: str


class ReadEntries(Struct, frozen=True):
    """The entries that fit, and the ids of what is left."""

    entries: list[ReadEntry]
    rest: list[str]


class AgentHome(Protocol):
    """Where threads live, and how they are opened. Every refusal is a `TreadleError`."""

    def open_thread(
        self, asked: TurnArguments, *, attended: bool
    ) -> AbstractAsyncContextManager[Thread]:
        """Open the thread of a call for writing; a `RunArguments` makes a new one.

        Without a user to ask (`attended`), no approval is asked by default. Raises
        `ThreadBusy` where somebody else writes it.
        """
        ...

    async def threads(self, limit: int, skip: int = 0) -> ThreadList:
        """Return the threads behind the first `skip`."""
        ...

    async def show(self, asked: ShowArguments) -> ShownThread:
        """Return the newest entries of a thread that people are shown."""
        ...

    async def search(self, asked: SearchArguments) -> FoundEntries:
        """Search all threads."""
        ...

    async def expand(self, asked: ExpandArguments) -> ReadEntries:
        """Return entries, ranges, and the entries behind summaries."""
        ...

    async def report(self, thread: str, turn: str) -> TurnReport:
        """Return how a turn ended that any process ran, by what the log says."""
        ...

    async def page(self, thread: str) -> str:
        """Return a thread as a Markdown page."""
        ...

    async def ledger(self, thread: str) -> dict[str, Any]:
        """Return what is known of the requests of a thread."""
        ...
