"""The guard: calls an engine's code, and lets nothing of it break a turn.

Owns how long an engine may take, and what happens when it raises, hangs or answers with
something else. Invariants: whoever calls through the guard gets an answer of the right type
that nobody else can change, or `EngineFailed`, in bounded time, even from an engine that
swallows its cancellation; and no call may ask the model anything once it is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct, field

from ..core.aio import start_now
from ..core.errors import EngineFailed, TreadleError
from ..core.items import Item
from ..core.redact import describe_error, one_line
from ..core.typed import decode_json
from .contract import HOST_PARAMS, EngineInfo, HostParam
from .lazy_sequence import LazySequence
from .values import Complete, RuntimeContext

__all__ = ["EngineGuard", "EngineTimeouts", "checked_copy", "without_declined"]

T = TypeVar("T")
P = TypeVar("P", bound=Struct)
G = TypeVar("G", bound=Struct | None)

_MOST_EXTENSIONS = 9
"""How often the time of a call is extended because the model is answering."""

_logger = logging.getLogger(__name__)


class EngineTimeouts(Struct, frozen=True, kw_only=True):
    """How many seconds an engine has for each call."""

    bootstrap: float = 120.0
    assemble: float = 30.0
    commit: float = 60.0
    maintain: float = 60.0
    compact: float = 180.0
    spawn: float = 10.0
    dispose: float = 10.0
    grace: float = 2.0
    """For a call that was cancelled to come to its end."""


class EngineGuard(Struct):
    """Calls one engine."""

    info: EngineInfo
    grace: float = EngineTimeouts().grace
    """Seconds that a cancelled call has to come to an end."""
    _running: set[asyncio.Future[Any]] = field(default_factory=set)
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
        """Call `method` with `given` and return its answer. Raises `EngineFailed`.

        It is cancelled when its caller is, or when its time is up and has not been
        `extended`; where `given` has a signal for that, the signal is set first. While the
        model answers a question of the engine's, its time is up later: a slow model is no
        engine that hangs. What it was given to ask the model with ends with the call.
        """
        complete = _complete_for_call(given)
        limited = given if complete is None else _with_complete(given, complete)
        cancelled: asyncio.Event | None = getattr(given, "cancelled", None)
        task = start_now(self._run(operation, method, limited))
        try:
            await _wait(task, seconds, extended, complete)
            if not task.done():
                await self._stop(task, cancelled)
                raise self._failure(operation, f"no answer within {seconds:g} s")
        except asyncio.CancelledError:
            await self._stop(task, cancelled)
            raise
        finally:
            if complete is not None:
                complete.is_over = True
        return self._result(operation, task, expected, given)

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

    def _result(
        self,
        operation: str,
        task: asyncio.Future[object],
        expected: type[T],
        given: Struct | None,
    ) -> T:
        """Return the answer of a call that is over, if it can be used."""
        if task.cancelled():
            raise self._failure(operation, "it cancelled itself")
        if (error := task.exception()) is not None:
            raise self._failure(operation, describe_error(error)) from error
        result = task.result()
        if not isinstance(result, expected):
            kind = type(result).__name__
            raise self._failure(operation, f"it answered with {kind}, not {expected.__name__}")
        if not (isinstance(result, Struct) and issubclass(expected, Struct)):
            return result  # nothing, or an engine, which is no value
        try:
            return _copy_of_answer(result, expected, given)
        except ValueError as error:
            reason = f"its {expected.__name__} cannot be used: {error}"
            raise self._failure(operation, one_line(reason)) from error

    async def close(self) -> None:
        """Cancel what is still running, once more."""
        running = set(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=self.grace)

    async def _stop(self, task: asyncio.Future[Any], cancelled: asyncio.Event | None) -> None:
        if cancelled is not None:
            cancelled.set()
        task.cancel()
        self._running.add(task)
        task.add_done_callback(self._forget)
        await asyncio.wait((task,), timeout=self.grace)

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.debug("a call of engine %r failed after its end: %r", self.info.id, error)

    def _failure(self, operation: str, reason: str) -> EngineFailed:
        return EngineFailed(self.info.id, operation, reason)


def without_declined(
    info: EngineInfo, given: P, *, always: frozenset[HostParam] = frozenset()
) -> P:
    """Return `given` without the host parameters that the engine declines."""
    if info.accepted_host_params is None:
        return given
    declined = HOST_PARAMS - set(info.accepted_host_params) - always
    present = declined.intersection(given.__struct_fields__)
    return msgspec.structs.replace(given, **dict.fromkeys(present)) if present else given


def checked_copy(value: object, kind: type[T]) -> T:
    """Return a copy of `value` in which every field has the type that `kind` gives it.

    Raises `ValueError` where one has not, or holds what cannot be written down.
    """
    try:
        return decode_json(msgspec.json.encode(value, enc_hook=_encodable), kind)
    except (msgspec.MsgspecError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _encodable(value: object) -> object:
    """Return what JSON has for a value that it does not know."""
    return tuple(value) if isinstance(value, LazySequence) else repr(value)


def _copy_of_answer(result: Struct, kind: type[T], given: Struct | None) -> T:
    """Copy `result`, but for items that were only handed on: nobody can change them."""
    items: object = getattr(given, "items", None)
    if items is None or getattr(result, "items", None) is not items:
        return checked_copy(result, kind)
    rest: Any = checked_copy(msgspec.structs.replace(result, items=()), kind)
    return cast("T", msgspec.structs.replace(rest, items=items))


async def _wait(
    task: asyncio.Future[Any],
    seconds: float,
    extended: Callable[[], bool],
    complete: _CallComplete | None,
) -> None:
    """Wait until `task` is done, or its time is up and was not `extended`."""
    if task.done():
        return
    await asyncio.wait((task,), timeout=seconds)
    more = _MOST_EXTENSIONS
    while not task.done():
        is_answering = complete is not None and complete.answering > 0 and more > 0
        if not extended() and not is_answering:
            return
        more -= 1
        await asyncio.wait((task,), timeout=seconds)


def _complete_for_call(given: Struct | None) -> _CallComplete | None:
    """Return what an engine may ask the model with in one call; None where it may not."""
    context: RuntimeContext | None = getattr(given, "context", None)
    complete = None if context is None else context.complete
    return None if complete is None else _CallComplete(complete)


def _with_complete(given: G, complete: _CallComplete) -> G:
    """Return `given` with model access that ends with its call."""
    params: Any = given
    context = msgspec.structs.replace(params.context, complete=complete)
    return cast("G", msgspec.structs.replace(params, context=context))


class _CallComplete(Struct):
    """Model access for one call of an engine."""

    complete: Complete
    is_over: bool = False
    answering: int = 0
    """How many questions wait for their answers."""

    @property
    def purpose(self) -> str:
        """What it may be used for."""
        return self.complete.purpose

    async def __call__(
        self, prompt: str, *, items: Sequence[Item] = (), instructions: str = ""
    ) -> str:
        """Return the model's answer. Raises `TreadleError` when the call is over."""
        if self.is_over:
            raise TreadleError(
                f"the call that was given {self.purpose!r} is over; use what the next one is given"
            )
        self.answering += 1
        try:
            return await self.complete(prompt, items=items, instructions=instructions)
        finally:
            self.answering -= 1
