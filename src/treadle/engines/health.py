"""Health: what went wrong with an engine last, for whoever asks later.

Owns ``<home>/engines/health.json``. Invariants: a record never holds a secret or more
than a line, it is gone once the same operation works again, and no trouble with the file
reaches a turn.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from ..core.errors import ConfigError
from ..core.files import read_private_json, write_private_json
from .words import brief

__all__ = ["EngineFailure", "EngineHealth"]

_log = logging.getLogger(__name__)


class EngineFailure(Struct, frozen=True, kw_only=True):
    """The newest failure of an engine."""

    operation: str
    reason: str
    thread: str = ""
    time: int
    """Milliseconds since 1970."""
    count: int = 1
    """How often in a row."""


class _Record(Struct, kw_only=True):
    version: int = 1
    failures: dict[str, EngineFailure] = msgspec.field(default_factory=dict)


class EngineHealth:
    """The newest failures of the engines of one home; without a home, of this process."""

    def __init__(self, home: Path | None) -> None:
        self._path = None if home is None else home / "engines" / "health.json"
        self._lock = threading.Lock()
        self._known: dict[str, EngineFailure] | None = None if home is not None else {}

    def read(self) -> dict[str, EngineFailure]:
        """The newest failure of each engine that has one. Reads the file each time."""
        return dict(self._read())

    async def record(self, engine: str, operation: str, reason: str, thread: str = "") -> None:
        """Remember a failure."""
        now = time.time_ns() // 1_000_000
        failure = EngineFailure(operation=operation, reason=brief(reason), thread=thread, time=now)
        await asyncio.to_thread(self._put, engine, failure)

    async def clear(self, engine: str, operation: str) -> None:
        """Forget a failure of the same operation."""
        if self._known is None:
            self._known = await asyncio.to_thread(self._read)
        failure = self._known.get(engine)
        if failure is not None and failure.operation == operation:
            await asyncio.to_thread(self._remove, engine, operation)

    def _put(self, engine: str, failure: EngineFailure) -> None:
        with self._lock:
            failures = self._read()
            last = failures.get(engine)
            if last is not None and last.operation == failure.operation:
                failure = msgspec.structs.replace(failure, count=last.count + 1)
            self._write(failures | {engine: failure})

    def _remove(self, engine: str, operation: str) -> None:
        with self._lock:
            failures = dict(self._read())
            if engine in failures and failures[engine].operation == operation:
                del failures[engine]
            self._write(failures)

    def _read(self) -> dict[str, EngineFailure]:
        if self._path is None:
            return self._known or {}
        try:
            return read_private_json(self._path, _Record).failures
        except ConfigError as error:
            _log.warning("%s", error)
            return {}

    def _write(self, failures: dict[str, EngineFailure]) -> None:
        self._known = failures
        if self._path is None:
            return
        try:
            write_private_json(self._path, _Record(failures=failures))
        except OSError as error:
            _log.warning("cannot write %r: %s", str(self._path), error)
