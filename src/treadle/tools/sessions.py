"""Sessions: processes that live on between calls.

Owns what a process has written and not yet told. Invariant: output is taken in all
the time, told once, and kept whole; no more than `MOST` processes live at a time.
"""

from __future__ import annotations

import asyncio
import codecs
import itertools
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .executor import Process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .excerpt import Excerpt
    from .keeping import Keeper

__all__ = ["MOST", "Session", "Sessions"]

MOST = 64
_PROTECTED = 8
"""The most recently used sessions, which are never ended to make room."""


class Session:
    """One process, and its output so far."""

    def __init__(self, process: Process, keeper: Keeper, *, tty: bool = False) -> None:
        from .excerpt import HeadTail

        self.process, self.keeper, self.tty = process, keeper, tty
        self.number: int | None = None
        """What a model calls it by, once it outlives its call."""
        self.exit_code: int | None = None
        self._output = HeadTail()
        self._listener: Callable[[str], None] | None = None
        self._pump = asyncio.create_task(self._take_in())

    @property
    def ended(self) -> bool:
        """Whether the process has ended and all of its output has arrived."""
        return self._pump.done()

    async def wait(self, seconds: float) -> None:
        """Wait until it ends, at most for `seconds`."""
        await asyncio.wait({self._pump}, timeout=seconds)
        if self._pump.done():
            self._pump.result()

    def take(self) -> Excerpt:
        """The output since the last time."""
        return self._output.take(whole=self.ended)

    async def kill(self) -> None:
        """End the process and all that it started."""
        await self.process.kill()
        await asyncio.wait({self._pump})

    @contextmanager
    def heard_by(self, listener: Callable[[str], None]) -> Iterator[None]:
        """Let `listener` hear the output as it arrives."""
        self._listener = listener
        try:
            yield
        finally:
            self._listener = None

    async def _take_in(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        try:
            async for data in self.process.output():
                self._output.add(data)
                if self._listener is not None and (text := decoder.decode(data)):
                    self._listener(text)
                await self.keeper.add(data)
            self.exit_code = await self.process.wait()
        except BaseException:
            await asyncio.shield(self.process.kill())
            raise


class Sessions:
    """The processes of one thread that outlived the call that started them."""

    def __init__(self) -> None:
        self._live: dict[int, Session] = {}
        self._numbers = itertools.count(1)

    def find(self, number: int) -> Session | None:
        """The session `number`, which then counts as the most recently used."""
        session = self._live.pop(number, None)
        if session is not None:
            self._live[number] = session
        return session

    async def add(self, session: Session) -> None:
        """Let `session` live on; the least recently used one ends when there are too many."""
        if len(self._live) >= MOST:
            await self.remove(self._dispensable()).kill()
        session.number = next(self._numbers)
        self._live[session.number] = session

    def remove(self, session: Session) -> Session:
        """Forget `session`."""
        if session.number is not None:
            self._live.pop(session.number, None)
        return session

    def _dispensable(self) -> Session:
        """One that has ended, else any, and the one whose use is longest ago."""
        old = list(self._live.values())[:-_PROTECTED]
        return next((session for session in old if session.ended), old[0])
