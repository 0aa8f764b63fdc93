"""Work that a cancellation must not tear.

Owns one function. Invariant: what was begun is done to its end; only then does a
cancellation that came meanwhile go on. That also holds at the end of `asyncio.run`, which
cancels every task there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["whole"]

T = TypeVar("T")


class _Untorn(asyncio.Task[T]):
    """A task that only its own time limits cancel, for nobody else knows it."""


async def whole(work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives. A caller that is cancelled meanwhile hears of it afterwards."""
    if isinstance(asyncio.current_task(), _Untorn):
        return await work
    task = _Untorn(work, loop=asyncio.get_running_loop())
    # Whoever cancels all tasks finds the one that waits for this one, and waits for it.
    asyncio._unregister_task(task)  # noqa: SLF001 - documented for those who bring tasks of their own
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await _end_of(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        failed = None if task.cancelled() else task.exception()
        raise cancelled from failed
    return task.result()


async def _end_of(task: asyncio.Task[Any]) -> None:
    """Wait for `task` without handing a cancellation on to it."""
    waiter = asyncio.get_running_loop().create_future()

    def ended(_: asyncio.Task[Any]) -> None:
        if not waiter.done():
            waiter.set_result(None)

    task.add_done_callback(ended)
    try:
        await waiter
    finally:
        task.remove_done_callback(ended)
