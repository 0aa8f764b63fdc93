"""Importing: pasts of other agents become threads.

Owns the way from paths to a report. Invariant: importing the same again adds nothing,
and importing after a crash adds what is missing, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..prompt.registry import Registry, default_registry
from ..store.contract import Store, ThreadInfo
from .detect import Format
from .history import known_threads
from .plain_import import PlainImport
from .report import Brought, ImportReport, report_of
from .session_import import SessionImport
from .sessions import SessionFormat
from .sink import Sink
from .sources import Source, find_sources
from .tally import Tally

__all__ = ["import_paths"]


async def import_paths(
    store: Store,
    paths: Sequence[Path],
    *,
    format: Format | None = None,  # noqa: A002 - the word that users know
    registry: Registry | None = None,
    dry: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> ImportReport:
    """Bring files, and those below directories, into `store`.

    Raises `ConfigError` for a file that cannot be read, and `ThreadBusy` for a thread
    that someone is writing; what was imported before stays, and is not imported again.
    A `dry` run writes nothing and tells what it would do.
    """
    sources, skipped = await asyncio.to_thread(find_sources, paths, format)
    registry = registry or default_registry()
    known = await known_threads(store, await store.threads()) if sources else {}
    job = _Import(store, Sink(store, dry), registry, known, Tally(), progress)
    brought: list[Brought] = []
    for number, source in enumerate(sources, start=1):
        progress(f"{source.path.name} ({number:,} of {len(sources):,} files)")
        brought += await job.run(source)
    return report_of(brought, job.tally, skipped)


@dataclass(slots=True)
class _Import:
    """One import of any number of files."""

    store: Store
    sink: Sink
    registry: Registry
    known: dict[str, list[ThreadInfo]]
    tally: Tally
    progress: Callable[[str], None]

    async def run(self, source: Source) -> list[Brought]:
        if source.format == "jsonl":
            brought = await self.plain(source.path).run()
            for each in brought:
                await self.learn(each)
            return brought
        return await self.sessions(source.path, _reader(source.format))

    def plain(self, path: Path) -> PlainImport:
        return PlainImport(
            self.store, self.sink, self.registry, path, self.known, self.tally, self.progress
        )

    async def sessions(self, path: Path, reader: SessionFormat) -> list[Brought]:
        job = SessionImport(
            self.store,
            self.sink,
            reader,
            self.registry,
            path,
            self.known,
            self.tally,
            self.progress,
        )
        brought: list[Brought] = []
        for session in await asyncio.to_thread(reader.survey, path, self.tally):
            brought.append(await job.run(session))
            await self.learn(brought[-1])
        return brought

    async def learn(self, brought: Brought) -> None:
        """A later file may go on with a thread that an earlier one made."""
        if brought.thread and brought.state in ("new", "forked", "apart"):
            info = await self.store.info(brought.thread)
            self.known.setdefault(brought.source, []).insert(0, info)


def _reader(name: Format) -> SessionFormat:
    if name == "codex":
        from .codex import CodexFormat

        return CodexFormat()
    if name == "claude":
        from .claude import ClaudeFormat

        return ClaudeFormat()
    from .openclaw import OpenClawFormat

    return OpenClawFormat()
