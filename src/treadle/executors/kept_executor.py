"""The executor of a thread, kept over processes and lost connections.

Owns when one is made, found again and given up. Invariants: it is written down before the first
command runs in it; one that is gone is replaced before a turn only, so that the model is told
before it acts; a call whose connection is lost fails, and is never sent twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec.structs import replace

from ..prompt.prompt_context import ExecutorFacts
from ..tools.executor import Bounds, Process, ProcessSpec
from ..tools.executor_life import (
    ExecutorGone,
    ExecutorRecord,
    ExecutorSource,
    LivingExecutor,
    Pauses,
    Stops,
)
from .choice import OnClose

__all__ = ["KeptExecutor"]


class KeptExecutor:
    """An executor that is made at its first use, and found again at every later one.

    `record` is what the thread knows of it, `save` writes that down, and `tell` hears what a
    person should know.
    """

    def __init__(
        self,
        source: ExecutorSource,
        *,
        thread: str,
        record: ExecutorRecord | None = None,
        save: Callable[[ExecutorRecord], Awaitable[None]],
        tell: Callable[[str], None],
        on_close: OnClose = "pause",
    ) -> None:
        self._source, self._thread = source, thread
        self._save, self._tell, self._on_close = save, tell, on_close
        self._known = record
        self._executor: LivingExecutor | None = None
        self._attaching = asyncio.Lock()

    @property
    def facts(self) -> ExecutorFacts:
        """Return what the model is told of it: as it is, or as it would be made."""
        record = self._expected_record()
        return ExecutorFacts(
            place=self._source.description,
            workspace=record.workspace,
            shell=record.shell,
            contains=self._source.contains,
            number=record.number,
            carried=record.carried,
        )

    @property
    def record(self) -> ExecutorRecord:
        """Return by what it is found; without an id, there is none yet."""
        return self._expected_record()

    async def attach(self) -> ExecutorFacts:
        """Have it there: find it, or make a new one. Call it before a turn. Raises `OSError`."""
        async with self._attaching:
            made = self._known
            if self._executor is None or not self._executor.is_connected:
                made = await self._find_or_make()
            if made is not None and made != self._known:
                self._known = made
                await self._save(made)
        return self.facts

    async def start(self, spec: ProcessSpec) -> Process:
        """Start a process there."""
        return await (await self._present()).start(spec)

    async def read(self, path: Path, *, bounds: Bounds, limit: int | None = None) -> bytes:
        """Read a file there."""
        return await (await self._present()).read(path, bounds=bounds, limit=limit)

    async def write(self, path: Path, data: bytes, *, bounds: Bounds) -> None:
        """Replace a file there."""
        await (await self._present()).write(path, data, bounds=bounds)

    async def patch(self, text: str, *, cwd: Path, bounds: Bounds) -> str:
        """Apply a patch there."""
        return await (await self._present()).patch(text, cwd=cwd, bounds=bounds)

    async def close(self) -> None:
        """End what runs there; the next call connects again."""
        if self._executor is not None:
            await self._executor.close()

    async def leave(self) -> None:
        """End what runs there, and let it rest or be removed, as the user wants it."""
        executor, self._executor = self._executor, None
        if executor is None:
            return
        able: object = executor
        try:
            if self._on_close == "pause" and isinstance(able, Pauses):
                await able.pause()
            elif self._on_close == "stop" and isinstance(able, Stops):
                await able.stop()
            else:
                await executor.close()
        except OSError as error:
            self._tell(f"{self._source.description} could not be left as wanted: {error}")

    def _expected_record(self) -> ExecutorRecord:
        """Return the record that is known, or that of one that would be made."""
        known = self._known
        if known is None:
            return self._source.plan
        if self._is_mine(known):
            return known
        return replace(self._source.plan, number=known.number + 1)

    def _is_mine(self, record: ExecutorRecord) -> bool:
        """Return whether a record is of what this source makes, for this thread."""
        plan = self._source.plan
        same = (record.kind, record.where) == (plan.kind, plan.where)
        return same and record.owner == self._thread

    async def _find_or_make(self) -> ExecutorRecord:
        known = self._known
        if known is not None and self._is_mine(known):
            try:
                self._executor = await self._source.connect(known)
            except ExecutorGone as gone:
                self._tell(f"{gone}; a new one is made, and files may be gone")
            else:
                found = self._executor.record
                return replace(found, number=known.number, carried=known.carried)
        self._executor = await self._source.start(self._thread)
        return replace(self._executor.record, number=known.number + 1 if known else 1)

    async def _present(self) -> LivingExecutor:
        """Return it, connected again where the connection was lost; one that is gone stays gone."""
        async with self._attaching:
            executor = self._executor
            if executor is not None and executor.is_connected:
                return executor
            if self._known is None:
                raise ExecutorGone("there is no executor yet; run a turn, which makes one")
            try:
                self._executor = await self._source.connect(self._known)
            except ExecutorGone as gone:
                raise ExecutorGone(f"{gone}; the next turn makes a new one") from gone
            return self._executor
