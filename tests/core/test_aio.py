"""Work that begins at once."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from treadle.core.aio import finish_uncancelled, start_now, start_uncancelled, wait_uncancelled

WORD = contextvars.ContextVar("WORD", default="")


async def test_work_that_waits_for_nothing_is_done_at_once():
    async def work() -> int:
        return 3

    done = start_now(work())
    assert done.done()
    assert done.result() == 3


async def test_work_that_waits_goes_on_as_one_task():
    async def work() -> tuple[str, bool]:
        first = asyncio.current_task()
        await asyncio.sleep(0)
        second = asyncio.current_task()
        assert second is not None
        return second.get_name(), first is second

    going = start_now(work(), name="mine")
    assert not going.done()
    assert await going == ("mine", True)


async def test_the_caller_is_the_present_task_again():
    before = asyncio.current_task()
    await asyncio.gather(start_now(asyncio.sleep(0)), start_now(asyncio.sleep(0.001)))
    assert asyncio.current_task() is before


async def test_a_time_limit_that_the_first_stretch_sets_is_the_works_own():
    async def work() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "in time"
        return "late"

    assert await start_now(work()) == "in time"


async def test_a_failure_of_the_first_stretch_is_for_whoever_asks():
    async def work() -> None:
        raise LookupError("gone")

    failed = start_now(work())
    with pytest.raises(LookupError, match="gone"):
        failed.result()


async def test_work_may_cancel_itself():
    async def work() -> None:
        raise asyncio.CancelledError

    assert start_now(work()).cancelled()


async def test_what_work_sets_stays_with_it():
    async def work() -> str:
        WORD.set("inner")
        await asyncio.sleep(0)
        return WORD.get()

    assert await start_now(work()) == "inner"
    assert WORD.get() == ""


async def test_a_cancellation_reaches_work_where_it_waits():
    seen = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            seen.append("tidied")
            raise

    going = start_now(work())
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert seen == ["cancelled", "tidied"]


def test_what_is_left_of_done_work_ends_with_the_loop(caplog):
    async def work() -> int:
        return 1

    async def main() -> int:
        return start_now(work()).result()

    assert asyncio.run(main()) == 1
    assert not caplog.records


def test_an_interrupt_is_the_callers():
    async def work() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        start_now(work())

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


async def test_unbroken_work_outlives_those_who_wait_for_it():
    gate = asyncio.Event()

    async def work() -> str:
        await gate.wait()
        return "whole"

    going = start_uncancelled(work())
    waiting = asyncio.create_task(wait_uncancelled(going))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert going.result() == "whole"


async def test_whole_work_that_waits_for_nothing_needs_no_pass_of_the_loop():
    passed: list[str] = []
    asyncio.get_running_loop().call_soon(passed.append, "a pass")

    async def work() -> int:
        return 5

    assert await finish_uncancelled(work()) == 5
    assert passed == []


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
