"""Small additions to asyncio: work that starts at once, and work that no cancellation tears.

Owns `start_now`, which is `asyncio.create_task` but for the first stretch of the work: that
runs right away, and work that has nothing to wait for is done by then. Most hooks and engine
calls are such; a plain task costs each of them three passes of the event loop. Owns
`finish_uncancelled`, too. Invariant: work that was started uncancelled runs to its end, also
at the end of `asyncio.run`, and only then does the cancellation go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextvars import copy_context
from typing import Any, TypeVar

__all__ = ["finish_uncancelled", "start_now", "start_uncancelled", "wait_uncancelled"]

T = TypeVar("T")


def start_now(
    work: Coroutine[Any, Any, T],
    *,
    name: str | None = None,
    kind: type[asyncio.Task[Any]] = asyncio.Task,
) -> asyncio.Future[T]:
    """Start `work` and return its future: done already, or a task that goes on with the rest."""
    loop, context = asyncio.get_running_loop(), copy_context()
    rest = _Rest(work)
    task: asyncio.Task[T] = kind(rest, loop=loop, name=name, context=context)
    caller = _present(loop, task)
    done: asyncio.Future[T]
    try:
        rest.awaits(context.run(work.send, None))
    except StopIteration as end:
        done = loop.create_future()
        done.set_result(end.value)
    except asyncio.CancelledError:
        done = loop.create_future()
        done.cancel()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - it is for whoever asks for the result
        done = loop.create_future()
        done.set_exception(error)
    else:
        done = task
    finally:
        _present(loop, caller)
    return done


def _present(
    loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None
) -> asyncio.Task[Any] | None:
    """Make `task` the one that runs now; the one that did until then."""
    before = asyncio.current_task(loop)
    if before is not None:
        asyncio._leave_task(loop, before)  # noqa: SLF001 - documented for those who bring tasks of their own
    if task is not None:
        asyncio._enter_task(loop, task)  # noqa: SLF001
    return before


class _Rest(Coroutine[Any, Any, T]):
    """What is left of the work after its first stretch: nothing, until it is known to wait."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._told: list[object] | None = None

    def awaits(self, awaited: object) -> None:
        """Note what the first part of the work waits for; the task gets it at its first step."""
        self._told = [awaited]

    def send(self, value: Any, /) -> Any:
        if self._told is None:
            raise StopIteration
        return self._told.pop() if self._told else self._work.send(value)

    def throw(self, *error: Any) -> Any:
        if self._told is None:
            raise StopIteration
        self._told = []
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()


class _Uncancelled(asyncio.Task[T]):
    """A task that only its own time limits cancel, for nobody else knows it."""

    def __init__(self, *work: Any, **options: Any) -> None:
        super().__init__(*work, **options)
        # Whoever cancels all tasks finds the one that waits for this one, and waits for it.
        asyncio._unregister_task(self)  # noqa: SLF001 - documented for those who bring tasks of their own


async def finish_uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end and return its result; only then cancel a cancelled caller."""
    if isinstance(asyncio.current_task(), _Uncancelled):
        return await work
    return await wait_uncancelled(start_uncancelled(work))


def start_uncancelled(work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
    """Start `work`, which nobody can cancel; wait for it with `wait_uncancelled`."""
    return start_now(work, kind=_Uncancelled)


async def wait_uncancelled(work: asyncio.Future[T]) -> T:
    """Wait for uncancelled work and return its result; only then cancel a cancelled caller."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await _end_of(work)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        failed = None if work.cancelled() else work.exception()
        raise cancelled from failed
    return work.result()


async def _end_of(work: asyncio.Future[Any]) -> None:
    """Wait for `work` without handing a cancellation on to it."""
    waiter = asyncio.get_running_loop().create_future()

    def wake(_: asyncio.Future[Any]) -> None:
        if not waiter.done():
            waiter.set_result(None)

    work.add_done_callback(wake)
    try:
        await waiter
    finally:
        work.remove_done_callback(wake)
