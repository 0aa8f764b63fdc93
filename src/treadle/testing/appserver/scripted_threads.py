"""The threads of a scripted app-server, stored as rollouts.

Owns the history of each thread and its file, with one item per line like Codex's own.
Invariant: an item is in the file before any message about it is sent.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["ScriptedThread", "ScriptedThreads"]


@dataclass(eq=False, slots=True)
class ScriptedThread:
    """A thread; `items` is the history that a model would read."""

    id: str
    path: Path | None
    raw_events: bool = False
    items: list[dict[str, Any]] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)
    seen: int = 0
    """The number of items so far, so that ids are unique."""
    running: asyncio.Task[None] | None = None
    turn: str = ""
    steered: asyncio.Event = field(default_factory=asyncio.Event)
    free: asyncio.Lock = field(default_factory=asyncio.Lock)

    def append(self, item: dict[str, Any]) -> dict[str, Any]:
        """Add an item to the history and to the file."""
        self.seen += 1
        item.setdefault("id", f"{item.get('type', 'item')}_{self.id[-4:]}_{self.seen}")
        self.items.append(item)
        self.write_line("response_item", item)
        return item

    def replace(self, items: list[dict[str, Any]]) -> None:
        """Replace the history."""
        self.items = items
        self.write_line("compacted", {"message": "", "replacement_history": items})

    def write_line(self, kind: str, payload: dict[str, Any]) -> None:
        """Add a line to the file."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode({"type": kind, "payload": payload}) + b"\n")

    def payload(self, *, turns: bool = False) -> dict[str, Any]:
        """Return the thread as results and notifications contain it."""
        return {
            "id": self.id,
            "sessionId": self.id,
            "path": None if self.path is None else str(self.path),
            "ephemeral": self.path is None,
            "historyMode": "paginated",
            "modelProvider": "scripted",
            "cliVersion": "0",
            "cwd": "/",
            "status": {"type": "idle" if self.running is None else "active", "activeFlags": []},
            "turns": self.turns if turns else [],
        }


class ScriptedThreads:
    """All threads, including those on disk."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._loaded: dict[str, ScriptedThread] = {}
        self._made = len(list(directory.glob("rollout-*.jsonl")))

    def new(self, *, ephemeral: bool = False, raw_events: bool = False) -> ScriptedThread:
        """Create a thread."""
        self._made += 1
        name = f"00000000-0000-7000-8000-{self._made:012d}"
        path = None if ephemeral else self._place(name)
        thread = ScriptedThread(name, path, raw_events)
        thread.write_line("session_meta", {"id": name})
        self._loaded[name] = thread
        return thread

    def find(self, name: str) -> ScriptedThread | None:
        """Return a loaded thread."""
        return self._loaded.get(name)

    def load(self, name: str) -> ScriptedThread | None:
        """Return a thread, from disk if needed."""
        if name not in self._loaded and self._place(name).is_file():
            self._loaded[name] = _read(name, self._place(name))
        return self._loaded.get(name)

    def unload(self, name: str) -> None:
        """Unload a thread that is on disk."""
        self._loaded.pop(name, None)

    def _place(self, name: str) -> Path:
        return self._directory / f"rollout-{name}.jsonl"


def _read(name: str, path: Path) -> ScriptedThread:
    thread = ScriptedThread(name, path)
    for line in path.read_bytes().splitlines():
        record = msgspec.json.decode(line)
        if record["type"] == "response_item":
            thread.items.append(record["payload"])
            thread.seen += 1
        elif record["type"] == "compacted":
            thread.items = record["payload"]["replacement_history"]
        elif record["type"] == "turn":
            thread.turns.append(record["payload"])
    return thread
