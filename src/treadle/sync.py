"""Threads for scripts: the same conversation without `await`.

Owns an event loop in a thread of its own for each conversation. Invariant: however a
loop over events is left (its end, a `break`, Ctrl-C), the turn is over and durable
before the next line of the script runs.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from .thread.thread import Thread as AsyncThread

if TYPE_CHECKING:
    from .engines.compaction import CompactionOutcome
    from .harness.events import Event
    from .policy.turn_plan import TurnPlan
    from .prompt.input import UserPart
    from .sandbox.approvals import Decision
    from .tools.contract import Answers

__all__ = ["Thread"]

T = TypeVar("T")


class _Loop:
    """An event loop that runs beside the script."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="treadle", daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Let `work` run in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives; Ctrl-C cancels it."""
        future = self.begin(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """What `function` gives when the loop calls it."""

        async def run() -> T:
            return function()

        return self.wait(run())

    def close(self) -> None:
        """Stop, once everything that still runs has been cancelled."""
        self.wait(_cancel_others())
        self.wait(self._loop.shutdown_asyncgens())
        self.wait(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Thread:
    """A conversation that this process writes, for code that does not await."""

    def __init__(self, thread: AsyncThread, loop: _Loop) -> None:
        self._thread, self._loop = thread, loop

    @classmethod
    @contextmanager
    def open(cls, thread: str | None = None, **options: Any) -> Iterator[Thread]:
        """Open a thread for writing, or make a new one; options as of `treadle.Thread.open`."""
        loop = _Loop()
        try:
            opening = AsyncThread.open(thread, **options)
            opened = loop.wait(opening.__aenter__())
            try:
                yield cls(opened, loop)
            finally:
                loop.wait(_close(opening))
        finally:
            loop.close()

    @property
    def id(self) -> str:
        """The id of the thread; use it to open the thread again."""
        return self._thread.id

    def run(self, *said: UserPart, **options: Any) -> Iterator[Event]:
        """Run a turn and hear what happens; options as of `treadle.Thread.run`.

        Leaving the loop early, also by Ctrl-C, interrupts the turn.
        """
        heard: queue.SimpleQueue[Event | None] = queue.SimpleQueue()

        async def listen() -> None:
            try:
                async for event in self._thread.run(*said, **options):
                    heard.put(event)
            finally:
                heard.put(None)

        turn = self._loop.begin(listen())
        try:
            while (event := heard.get()) is not None:
                yield event
            turn.result()
        finally:
            if not turn.done():
                self.interrupt()
                self._drain(heard)

    def steer(self, *said: UserPart) -> None:
        """Add input to the current turn; the model reads it before its next step."""
        self._loop.wait(self._thread.steer(*said))

    def send(self, thread: str, *said: UserPart, **options: Any) -> str:
        """Leave a message in the inbox of another thread; options as of `treadle.Thread.send`."""
        return self._loop.wait(self._thread.send(thread, *said, **options))

    def wait_for_engine(self, seconds: float) -> None:
        """Wait, at most `seconds`, for the engine's background work."""
        self._loop.wait(self._thread.wait_for_engine(seconds))

    def expects(self) -> bool:
        """Return whether `run` without input has, or will have, something to do."""
        return self._loop.wait(self._thread.expects())

    def interrupt(self) -> None:
        """Break the turn off; harmless when nothing runs."""
        self._loop.call(self._thread.interrupt)

    def answer(self, question: str, answer: Decision | Answers) -> None:
        """Answer an approval or a question, by the id of its event."""
        self._loop.call(lambda: self._thread.answer(question, answer))

    def foresee(self) -> TurnPlan:
        """The plan of a turn that began now; nothing is sent or recorded."""
        return self._loop.wait(self._thread.foresee())

    def compact(self) -> CompactionOutcome:
        """Compact the view into a summary now."""
        return self._loop.wait(self._thread.compact())

    def fork(self, at: int | None = None, *, title: str = "") -> str:
        """A new thread that shares this one up to entry `at`; its id."""
        return self._loop.wait(self._thread.fork(at, title=title))

    def rollback(self, turns: int = 1) -> None:
        """Hide the last `turns` turns."""
        self._loop.wait(self._thread.rollback(turns))

    def reset(self) -> None:
        """Start from an empty view. The log keeps everything."""
        self._loop.wait(self._thread.reset())

    def use(self, model: str | None = None, *, harness: str | None = None) -> None:
        """Use another model or another harness from the next turn on."""
        self._loop.call(lambda: self._thread.use(model, harness=harness))

    @staticmethod
    def _drain(heard: queue.SimpleQueue[Event | None]) -> None:
        """Wait for the end of a turn that nobody listens to any more."""
        while heard.get() is not None:
            pass


async def _close(opening: Any) -> None:
    await opening.__aexit__(None, None, None)
