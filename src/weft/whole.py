"""Work that a cancellation must not tear.

Owns one function. Invariant: what was begun is done to its end; only then does a
cancellation that came meanwhile go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar
from weakref import WeakSet

__all__ = ["whole"]

T = TypeVar("T")

_untorn: WeakSet[asyncio.Task[Any]] = WeakSet()
"""The tasks that nobody cancels, for only `whole` knows them."""


async def whole(work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives. A caller that is cancelled meanwhile hears of it afterwards."""
    if asyncio.current_task() in _untorn:
        return await work
    task = asyncio.create_task(work)
    _untorn.add(task)
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
