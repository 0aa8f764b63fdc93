"""Work that a cancellation must not tear.

Owns how such work is begun and waited for. Invariant: what was begun is done to its end;
only then does a cancellation that came meanwhile go on. That also holds at the end of
`asyncio.run`, which cancels every task there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from .aio import begun

__all__ = ["ended", "unbroken", "whole"]

T = TypeVar("T")


class _Untorn(asyncio.Task[T]):
    """A task that only its own time limits cancel, for nobody else knows it."""

    def __init__(self, *work: Any, **options: Any) -> None:
        super().__init__(*work, **options)
        # Whoever cancels all tasks finds the one that waits for this one, and waits for it.
        asyncio._unregister_task(self)  # noqa: SLF001 - documented for those who bring tasks of their own


async def whole(work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives. A caller that is cancelled meanwhile hears of it afterwards."""
    if isinstance(asyncio.current_task(), _Untorn):
        return await work
    return await ended(unbroken(work))


def unbroken(work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
    """Begin `work`, which nobody can cancel; whoever began it waits for it with `ended`."""
    return begun(work, kind=_Untorn)


async def ended(work: asyncio.Future[T]) -> T:
    """What unbroken work gives. A caller that is cancelled meanwhile hears of it afterwards."""
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
