"""Importing: conversations of other agents become threads.

Owns the way from paths to a report, and how the format of a file is found. Invariants:
importing the same again adds nothing, and importing after a crash adds what is missing, in
order; a file that was named is read or refused before anything is written; the name of a
file says nothing about its format.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..core.errors import ConfigError
from ..prompt.registry import Registry, installed_registry
from ..store.contract import Store, ThreadInfo
from .claude_code import ClaudeFormat
from .codex_rollout import CodexFormat
from .import_report import ImportCounts, ImportedThread, ImportReport, SkippedFile, report_of
from .imported_threads import ThreadWriter, known_threads
from .jsonl import read_lines
from .openclaw import OpenClawFormat
from .plain_import import PlainImport
from .session_format import SessionFormat
from .session_import import SessionImport

__all__ = ["FORMATS", "ImportFormat", "SourceFile", "detect_format", "find_sources", "import_paths"]

ImportFormat: TypeAlias = Literal["codex", "claude", "openclaw", "jsonl"]
FORMATS: tuple[ImportFormat, ...] = ("codex", "claude", "openclaw", "jsonl")

_READERS: Mapping[str, type[SessionFormat]] = {
    "codex": CodexFormat,
    "claude": ClaudeFormat,
    "openclaw": OpenClawFormat,
}
_ENDING = ".jsonl"
_DETECT_RECORDS = 50
_CODEX = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"}
)
_ITEMS = frozenset({"message", "reasoning", "function_call", "function_call_output"})
_CLAUDE = frozenset({"summary", "file-history-snapshot", "queue-operation"})


class SourceFile(Struct, frozen=True):
    """A file and its format."""

    path: Path
    format: ImportFormat


async def import_paths(
    store: Store,
    paths: Sequence[Path],
    *,
    format: ImportFormat | None = None,  # noqa: A002 - the word that users know
    registry: Registry | None = None,
    dry: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> ImportReport:
    """Import files, and those below directories, into `store`.

    Raises `ConfigError` for a file that cannot be read, and `ThreadBusy` for a thread
    that someone is writing; what was imported before stays, and is not imported again.
    A `dry` run writes nothing and reports what it would do.
    """
    sources, skipped = await asyncio.to_thread(find_sources, paths, format)
    if registry is None:
        registry = await asyncio.to_thread(installed_registry)
    known = await known_threads(store, await store.threads()) if sources else {}
    job = _Import(store, ThreadWriter(store, dry), registry, known, ImportCounts(), progress)
    threads: list[ImportedThread] = []
    for number, source in enumerate(sources, start=1):
        progress(f"{source.path.name} ({number:,} of {len(sources):,} files)")
        threads += await job.run(source)
    return report_of(threads, job.counts, skipped)


@dataclass(slots=True)
class _Import:
    """One import of any number of files."""

    store: Store
    writer: ThreadWriter
    registry: Registry
    known: dict[str, list[ThreadInfo]]
    counts: ImportCounts
    progress: Callable[[str], None]

    async def run(self, source: SourceFile) -> list[ImportedThread]:
        """Import one file."""
        if source.format != "jsonl":
            return await self._import_sessions(source.path, _READERS[source.format]())
        threads = await PlainImport(
            self.store,
            self.writer,
            self.registry,
            source.path,
            self.known,
            self.counts,
            self.progress,
        ).run()
        for each in threads:
            await self._learn(each)
        return threads

    async def _import_sessions(self, path: Path, reader: SessionFormat) -> list[ImportedThread]:
        job = SessionImport(
            self.store,
            self.writer,
            reader,
            self.registry,
            path,
            self.known,
            self.counts,
            self.progress,
        )
        threads: list[ImportedThread] = []
        for session in await asyncio.to_thread(reader.scan, path, self.counts):
            threads.append(await job.run(session))
            await self._learn(threads[-1])
        return threads

    async def _learn(self, imported: ImportedThread) -> None:
        """Remember a new thread, for a later file may continue it."""
        if imported.thread and imported.state in ("new", "forked", "apart"):
            info = await self.store.info(imported.thread)
            self.known.setdefault(imported.source, []).insert(0, info)


def find_sources(
    paths: Sequence[Path], wanted: ImportFormat | None = None
) -> tuple[list[SourceFile], list[SkippedFile]]:
    """Return the files to read, and those that hold nothing to import.

    Raises `ConfigError` for a file that was named and cannot be read.
    """
    sources: list[SourceFile] = []
    skipped: list[SkippedFile] = []
    for path in paths:
        if path.is_dir():
            for file in _files_below(path):
                _add_file(file, wanted, sources, skipped)
        else:
            sources.append(_named_file(path, wanted))
    return list(dict.fromkeys(sources)), skipped


def _files_below(directory: Path) -> Iterator[Path]:
    """Yield the JSONL files below a directory, sorted by name; links are not followed."""
    for place, inner, names in os.walk(directory):
        inner.sort()
        for name in sorted(names):
            if name.endswith(_ENDING):
                yield Path(place, name)


def _add_file(
    file: Path,
    wanted: ImportFormat | None,
    sources: list[SourceFile],
    skipped: list[SkippedFile],
) -> None:
    try:
        if not stat.S_ISREG(file.lstat().st_mode):
            return
        found = wanted or detect_format(file)
    except OSError as error:
        skipped.append(SkippedFile(str(file), error.strerror or "cannot be read"))
        return
    if found is None:
        skipped.append(SkippedFile(str(file), "not in a known format"))
    else:
        sources.append(SourceFile(file, found))


def _named_file(path: Path, wanted: ImportFormat | None) -> SourceFile:
    try:
        is_regular = stat.S_ISREG(path.stat().st_mode)
        found = (wanted or detect_format(path)) if is_regular else None
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot read {str(path)!r}: {reason}; check the path") from error
    if not is_regular:
        raise ConfigError(f"{str(path)!r} is not a regular file; name a JSONL file or a directory")
    if found is None:
        raise ConfigError(
            f"{str(path)!r} is not in a known format; name the format with --format, "
            "or convert it to plain JSONL"
        )
    return SourceFile(path, found)


def detect_format(path: Path) -> ImportFormat | None:
    """Return the format of a file; None if none of its first records shows it."""
    for record in islice(_records(path), _DETECT_RECORDS):
        if (found := _format_of(record)) is not None:
            return found
    return None


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    for line in read_lines(path, ImportCounts()):
        try:
            record = msgspec.json.decode(line.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def _format_of(record: Mapping[str, Any]) -> ImportFormat | None:
    kind = record.get("type")
    kind = kind if isinstance(kind, str) else ""
    if kind in _CODEX and "payload" in record:
        return "codex"
    if "parentUuid" in record or (kind in _CLAUDE and not record.keys() & {"role", "thread"}):
        return "claude"
    if kind == "session" and "id" in record:
        return "openclaw"
    if isinstance(record.get("role"), str) and record.keys() & {"content", "item"} and not kind:
        return "jsonl"
    if "instructions" in record and "id" in record and not kind:
        return "codex"
    if kind in _ITEMS and not record.keys() & {"parentId", "message"}:
        return "codex"
    return None
