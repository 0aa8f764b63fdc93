from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

from treadle import Rights, Thread
from treadle.store import SqliteStore
from treadle.testing import ScriptedModel
from treadle.tools.contract import Tool


class Place:
    """A store in a directory, and how a worker opens its threads."""

    def __init__(self, path: Path, store: SqliteStore, model: ScriptedModel) -> None:
        self.path, self.store, self.model = path, store, model
        self.opened: list[str] = []
        """The threads that were opened, in order."""
        self.tools: tuple[Tool, ...] = ()

    async def thread(self, *said: str) -> str:
        """A new thread to which these messages were sent."""
        thread = (await self.store.create(cwd=str(self.path))).id
        for each in said:
            await Thread.post(thread, each, store=self.store)
        return thread

    @asynccontextmanager
    async def open(self, info):
        self.opened.append(info.id)
        async with Thread.open(
            info.id,
            model=self.model,
            home=self.path,
            store=self.store,
            tools=self.tools,
            rights=Rights(sandbox="danger-full-access", approval="never"),
        ) as thread:
            yield thread

    async def outputs(self, thread: str) -> list[str]:
        """The bodies of all outputs of calls in a thread."""
        entries = await self.store.read(thread)
        bodies = [entry.body.decode() for entry in entries if entry.kind == "item"]
        return [body for body in bodies if '_output"' in body]
