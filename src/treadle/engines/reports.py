"""Reports: who hears what of an engine.

Owns the events for people who debug an engine, the lines for the user, and
``<home>/engines/health.json``. Invariants: an event holds counts, names and our own words,
never a word of the conversation; the user hears a line once a turn; a record of health holds
no secret and is gone once the same operation works again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from ..core.errors import ConfigError, EngineFailed, StaleEpoch
from ..core.files import read_private_json, write_private_json
from ..core.redact import one_line
from ..log.thread_log import ThreadLog
from .view_change import InvalidEngineOutput

__all__ = ["Action", "EngineFailure", "EngineHealth", "EngineReported", "EngineReporter"]

_logger = logging.getLogger(__name__)

_GOES_ON = "the turn goes on, and the engine is asked again next time"

Action: TypeAlias = Literal[
    "bootstrap.started",
    "bootstrap.completed",
    "bootstrap.failed",
    "assemble.applied",
    "assemble.failed",
    "finalise.completed",
    "finalise.failed",
    "maintenance.run",
    "maintenance.skipped",
    "maintenance.failed",
    "compaction.completed",
    "compaction.failed",
    "degraded",
]


class EngineReported(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="engine"):
    """Something that an engine was asked for, and its result."""

    action: Action
    thread: str
    turn: int
    engine: str
    items: int | None = None
    """How many items were assembled, handed over or compacted."""
    tokens: int | None = None
    """Their estimated size."""
    has_addition: bool | None = None
    """Whether the engine adds guidance to the prompt."""
    reason: str = ""


class EngineReporter(Struct):
    """Reports on the engine of one thread."""

    log: ThreadLog
    engine: str
    health: EngineHealth | None
    notify: Callable[[str], None]
    """Tells the user, in one line."""
    emit: Callable[[EngineReported], None]
    _warned: set[str] = field(default_factory=set)

    def begin_turn(self) -> None:
        """Allow the user to be told again what was told in the turn before."""
        self._warned.clear()

    def warn(self, line: str) -> None:
        """Tell the user, once a turn: what fails at every step is still one thing to know."""
        if line not in self._warned:
            self._warned.add(line)
            self.notify(line)

    def report(self, action: Action, **facts: Any) -> None:
        """Emit an event for people who debug."""
        log = self.log
        event = EngineReported(
            action=action, thread=log.id, turn=log.turn, engine=self.engine, **facts
        )
        _logger.debug("%s", event)
        self.emit(event)

    async def report_failure(
        self, error: EngineFailed, action: Action = "degraded", *, so: str = _GOES_ON
    ) -> None:
        """Report and record a failure, and tell the user what follows from it."""
        self.report(action, reason=_own_words(error))
        self.warn(f"{error}; {so}")
        await self._record(error.operation, error.reason)

    async def record_failure(self, error: EngineFailed, action: Action) -> None:
        """Report and record a failure that the caller tells the user of."""
        self.report(action, reason=_own_words(error))
        await self._record(error.operation, error.reason)

    async def report_degraded(self, operation: str, reason: str) -> None:
        """Report and record that the turn runs without the engine, and tell the user."""
        self.report("degraded", reason=reason)
        self.warn(
            f"{reason}; this turn runs without engine {self.engine!r}, "
            "which is tried again on the next turn"
        )
        await self._record(operation, reason)

    async def clear_failures(self, *operations: str) -> None:
        """Remove the record of failures that are over."""
        for operation in operations:
            if self.health is not None:
                await self.health.clear(self.engine, operation)

    async def _record(self, operation: str, reason: str) -> None:
        if self.health is not None:
            await self.health.record(self.engine, operation, reason, self.log.id)


def _own_words(error: EngineFailed) -> str:
    """Return why an engine failed, in our words: the engine's may be the conversation's."""
    cause = error.__cause__
    ours = cause is None or isinstance(cause, InvalidEngineOutput | StaleEpoch)
    return error.reason if ours else type(cause).__name__


class EngineFailure(Struct, frozen=True, kw_only=True):
    """The newest failure of an engine."""

    operation: str
    reason: str
    thread: str = ""
    time: int
    """Milliseconds since 1970."""
    count: int = 1
    """How often in a row."""


class _HealthFile(Struct, kw_only=True):
    version: int = 1
    failures: dict[str, EngineFailure] = msgspec.field(default_factory=dict)


class EngineHealth:
    """The newest failures of the engines of one home; without a home, of this process.

    No trouble with the file reaches a turn.
    """

    def __init__(self, home: Path | None) -> None:
        self._path = None if home is None else home / "engines" / "health.json"
        self._lock = threading.Lock()
        self._known: dict[str, EngineFailure] | None = None if home is not None else {}

    def read(self) -> dict[str, EngineFailure]:
        """Read the newest failure of each engine that has one, from the file each time."""
        return dict(self._read())

    async def record(self, engine: str, operation: str, reason: str, thread: str = "") -> None:
        """Record a failure."""
        now = time.time_ns() // 1_000_000
        failure = EngineFailure(
            operation=operation, reason=one_line(reason), thread=thread, time=now
        )
        await asyncio.to_thread(self._put, engine, failure)

    async def clear(self, engine: str, operation: str) -> None:
        """Remove the record of a failure of the same operation."""
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
            return read_private_json(self._path, _HealthFile).failures
        except ConfigError as error:
            _logger.warning("%s", error)
            return {}

    def _write(self, failures: dict[str, EngineFailure]) -> None:
        self._known = failures
        if self._path is None:
            return
        try:
            write_private_json(self._path, _HealthFile(failures=failures))
        except OSError as error:
            _logger.warning("cannot write %r: %s", str(self._path), error)
