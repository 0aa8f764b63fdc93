"""The guard: an engine's code, held at arm's length.

Owns what happens when an engine raises, hangs or answers with something else. Invariant:
whoever calls through it gets an answer of the right kind that is nobody else's, or
`EngineFailed`, in bounded time, even from an engine that swallows its cancellation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct, field

from ..core.aio import start_now
from ..core.errors import EngineFailed
from .borrowed import lent
from .info import HOST_PARAMS, EngineInfo, HostParam
from .lazy_sequence import LazySequence
from .words import brief, describe_error

__all__ = ["EngineGuard", "checked_copy", "without_declined"]

T = TypeVar("T")
P = TypeVar("P", bound=Struct)

_GRACE = 2.0

_log = logging.getLogger(__name__)


def without_declined(
    info: EngineInfo, given: P, *, always: frozenset[HostParam] = frozenset()
) -> P:
    """`given` without the host parameters that the engine declines."""
    if info.accepted_host_params is None:
        return given
    declined = HOST_PARAMS - set(info.accepted_host_params) - always
    present = declined.intersection(given.__struct_fields__)
    return msgspec.structs.replace(given, **dict.fromkeys(present)) if present else given


def checked_copy(value: object, kind: type[T]) -> T:
    """A copy of `value` in which every field has the type that `kind` gives it.

    Raises `ValueError` where one has not, or holds what cannot be written down.
    """
    try:
        return msgspec.json.decode(msgspec.json.encode(value, enc_hook=_plain), type=kind)
    except (msgspec.MsgspecError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _plain(value: object) -> object:
    """What JSON has for a value that it does not know."""
    return tuple(value) if isinstance(value, LazySequence) else repr(value)


def _taken(result: Struct, kind: type[T], given: Struct | None) -> T:
    """An own copy of `result`, but for items that were only handed on: nobody can change them."""
    items: object = getattr(given, "items", None)
    if items is None or getattr(result, "items", None) is not items:
        return checked_copy(result, kind)
    rest: Any = checked_copy(msgspec.structs.replace(result, items=()), kind)
    return cast("T", msgspec.structs.replace(rest, items=items))


class EngineGuard(Struct):
    """Calls one engine."""

    info: EngineInfo
    grace: float = _GRACE
    """Seconds that a cancelled call has to come to an end."""
    _left: set[asyncio.Future[Any]] = field(default_factory=set)
    """Calls that did not end although they were cancelled."""

    async def call(
        self,
        operation: str,
        method: Callable[..., Awaitable[object]],
        given: Struct | None,
        expected: type[T],
        seconds: float,
        *,
        extended: Callable[[], bool] = lambda: False,
    ) -> T:
        """What `method` answers to `given`. Raises `EngineFailed`.

        It is cancelled when its caller is, or when its time is up and has not been
        `extended`; where `given` has a signal for that, the signal is set first. What it
        was lent to ask the model with ends with the call.
        """
        with lent(given) as lending:
            task = start_now(self._run(operation, method, lending))
            cancelled: asyncio.Event | None = getattr(given, "cancelled", None)
            try:
                await _over(task, seconds, extended)
            except asyncio.CancelledError:
                await self._stop(task, cancelled)
                raise
            if not task.done():
                await self._stop(task, cancelled)
                raise self._failed(operation, f"no answer within {seconds:g} s")
        return self._judged(operation, task, expected, given)

    async def _run(
        self, operation: str, method: Callable[..., Awaitable[object]], given: Struct | None
    ) -> object:
        always: frozenset[HostParam] = (
            frozenset({"cancelled"}) if operation == "compact" else frozenset()
        )
        try:
            if given is None:
                return await method()
            return await method(without_declined(self.info, given, always=always))
        except SystemExit as error:
            # A task that raises it ends the loop. An interrupt may: it is the user's.
            raise RuntimeError("it tried to end the process") from error

    def _judged(
        self,
        operation: str,
        task: asyncio.Future[object],
        expected: type[T],
        given: Struct | None,
    ) -> T:
        """What a call that is over has answered, if that can be used."""
        if task.cancelled():
            raise self._failed(operation, "it cancelled itself")
        if (error := task.exception()) is not None:
            raise self._failed(operation, describe_error(error)) from error
        result = task.result()
        if not isinstance(result, expected):
            kind = type(result).__name__
            raise self._failed(operation, f"it answered with {kind}, not {expected.__name__}")
        if not (isinstance(result, Struct) and issubclass(expected, Struct)):
            return result  # nothing, or an engine, which is no value
        try:
            return _taken(result, expected, given)
        except ValueError as error:
            reason = f"its {expected.__name__} cannot be used: {error}"
            raise self._failed(operation, brief(reason)) from error

    async def close(self) -> None:
        """Cancel what is still running, once more."""
        left = set(self._left)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=self.grace)

    async def _stop(self, task: asyncio.Future[Any], cancelled: asyncio.Event | None) -> None:
        if cancelled is not None:
            cancelled.set()
        task.cancel()
        self._left.add(task)
        task.add_done_callback(self._ended)
        await asyncio.wait((task,), timeout=self.grace)

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._left.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.debug("a call of engine %r failed after its end: %r", self.info.id, error)

    def _failed(self, operation: str, reason: str) -> EngineFailed:
        return EngineFailed(self.info.id, operation, reason)


async def _over(task: asyncio.Future[Any], seconds: float, extended: Callable[[], bool]) -> None:
    """Wait until `task` is done, or its time is up and was not `extended`."""
    if task.done():
        return
    await asyncio.wait((task,), timeout=seconds)
    while not task.done() and extended():
        await asyncio.wait((task,), timeout=seconds)
