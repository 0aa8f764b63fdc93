"""The guard: an engine's code, held at arm's length.

Owns what happens when an engine raises, hangs or answers with something else. Invariant:
whoever calls through it gets an answer of the right kind or `EngineFailed`, in bounded
time, even from an engine that swallows its cancellation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ..errors import EngineFailed
from .info import HOST_PARAMS, EngineInfo, HostParam

__all__ = ["Guard", "accepted", "described"]

T = TypeVar("T")
P = TypeVar("P", bound=Struct)

_GRACE = 2.0
"""Seconds that a cancelled call has to come to an end."""

_REASON_CHARS = 300

_log = logging.getLogger(__name__)


def accepted(info: EngineInfo, given: P, *, always: frozenset[HostParam] = frozenset()) -> P:
    """`given` without the host parameters that the engine declines."""
    if info.accepted_host_params is None:
        return given
    declined = HOST_PARAMS - set(info.accepted_host_params) - always
    present = declined.intersection(given.__struct_fields__)
    return msgspec.structs.replace(given, **dict.fromkeys(present)) if present else given


def described(error: BaseException) -> str:
    """An error in one line, short enough to show."""
    said = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {said}"[:_REASON_CHARS]


@dataclass(slots=True)
class Guard:
    """Calls one engine."""

    info: EngineInfo
    _left: set[asyncio.Task[Any]] = field(default_factory=set, init=False)
    """Calls that did not end although they were cancelled."""

    async def call(
        self,
        method: Callable[..., Awaitable[object]],
        given: Struct | None,
        expected: type[T],
        seconds: float,
        *,
        extended: Callable[[], bool] = lambda: False,
    ) -> T:
        """What `method` answers to `given`. Raises `EngineFailed`.

        It is cancelled when its caller is, or when its time is up and has not been
        `extended`; where `given` has a signal for that, the signal is set first.
        """
        operation = method.__name__
        cancelled: asyncio.Event | None = getattr(given, "cancelled", None)
        task = asyncio.create_task(self._run(method, given))
        try:
            done, _ = await asyncio.wait((task,), timeout=seconds)
            while not done and extended():
                done, _ = await asyncio.wait((task,), timeout=seconds)
        except asyncio.CancelledError:
            await self._stop(task, cancelled)
            raise
        if not done:
            await self._stop(task, cancelled)
            raise self._failed(operation, f"no answer within {seconds:g} s")
        if task.cancelled():
            raise self._failed(operation, "it cancelled itself")
        if (error := task.exception()) is not None:
            raise self._failed(operation, described(error)) from error
        result = task.result()
        if not isinstance(result, expected):
            kind = type(result).__name__
            raise self._failed(operation, f"it answered with {kind}, not {expected.__name__}")
        return result

    async def _run(self, method: Callable[..., Awaitable[object]], given: Struct | None) -> object:
        if given is None:
            return await method()
        always: frozenset[HostParam] = (
            frozenset({"cancelled"}) if method.__name__ == "compact" else frozenset()
        )
        return await method(accepted(self.info, given, always=always))

    async def close(self) -> None:
        """Cancel what is still running, once more."""
        left = set(self._left)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_GRACE)

    async def _stop(self, task: asyncio.Task[Any], cancelled: asyncio.Event | None) -> None:
        if cancelled is not None:
            cancelled.set()
        task.cancel()
        self._left.add(task)
        task.add_done_callback(self._ended)
        await asyncio.wait((task,), timeout=_GRACE)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._left.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.debug("a call of engine %r failed after its end: %r", self.info.id, error)

    def _failed(self, operation: str, reason: str) -> EngineFailed:
        return EngineFailed(self.info.id, operation, reason)
