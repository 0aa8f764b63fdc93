"""Work that a cancellation must not tear.

Owns one function. Invariant: what was begun is done to its end; only then does a
cancellation that came meanwhile go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["whole"]

T = TypeVar("T")


async def whole(work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives. A caller that is cancelled meanwhile hears of it afterwards."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        failed = None if task.cancelled() else task.exception()
        raise cancelled from failed
    return task.result()
