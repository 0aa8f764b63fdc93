from __future__ import annotations

import asyncio

import pytest

from treadle.core.aio import finish_uncancelled


async def moments(done: list[str]) -> str:
    await asyncio.sleep(0.01)
    await asyncio.sleep(0.01)
    done.append("end")
    return "given"


def test_the_end_of_the_loop_does_not_tear_work():
    done: list[str] = []

    async def main() -> None:
        asyncio.create_task(finish_uncancelled(moments(done)))  # noqa: RUF006 - nobody waits: that is the point
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert done == ["end"]


async def test_who_is_cancelled_hears_of_it_when_the_work_is_done():
    done: list[str] = []
    task = asyncio.create_task(finish_uncancelled(moments(done)))
    await asyncio.sleep(0)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["end"]


async def test_work_within_work_is_done_in_the_same_breath():
    done: list[str] = []

    async def outer() -> str:
        return await finish_uncancelled(moments(done))

    assert await finish_uncancelled(outer()) == "given"
    assert done == ["end"]


async def test_what_fails_is_raised_and_told_beside_a_cancellation():
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await finish_uncancelled(fails())
    task = asyncio.create_task(finish_uncancelled(fails()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as told:
        await task
    assert isinstance(told.value.__cause__, ValueError)


async def test_time_limits_within_the_work_hold():
    async def slow() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            return "too slow"
        return "never"

    assert await finish_uncancelled(slow()) == "too slow"
