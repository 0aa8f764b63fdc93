from __future__ import annotations

import asyncio
import threading

import pytest

from treadle.engines.offers import seconded


async def test_a_cancellation_that_meets_the_result_is_not_swallowed():
    loop = asyncio.get_running_loop()

    def cancel_after_the_result(worker: threading.Thread) -> None:
        while worker.is_alive():
            pass
        # The result waits to be taken over by now; this comes right behind it.
        loop.call_soon(waiting.cancel)

    def work() -> str:
        loop.call_soon_threadsafe(cancel_after_the_result, threading.current_thread())
        return "a result"

    waiting = asyncio.create_task(seconded(work, 60))
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert waiting.cancelled()
