"""Following a home: what changes in it while somebody looks, whoever writes it.

Owns how changes are noticed: the files of the log and of the ledger are looked at a few times
a second, and read only where they changed. Invariants: nobody has to tell us anything; what
waits for a slow reader never grows, for news of one kind replace each other; and nothing is
looked at while nobody listens.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from msgspec import Struct

from ..core.errors import NotFound, TreadleError
from ..hosts.watch import find_live_token, hear_thread
from ..store.contract import ThreadInfo
from ..store.looking import FileState, file_state
from .api_answers import TooMany, without_secrets
from .inspected_home import ShownHome
from .thread_list import living_holder
from .turn_progress import event_json

__all__ = ["FOLLOWING", "MOST_READERS", "Following", "News", "Reader"]

MOST_READERS = 16
"""How many may listen at a time."""

FOLLOWING = "treadle-web-following"
"""The name of the task that looks."""
PAUSE = 0.2
_ANYWAY = 10
"""After so many pauses it is looked again even where no file has changed: a writer may have died,
or two changes may have had the same time."""
_OF_DATABASE = 5
"""After so many pauses a database is asked, which has no files that could be looked at."""
_NEWEST = 50
_MOST_LIVE = 400
"""Events of a running turn that wait for a slow reader."""
_RUNNING = frozenset({"admitted", "running"})


class News(Struct, frozen=True):
    """Something that has changed."""

    name: str
    data: dict[str, Any]


class Reader:
    """One who listens: to one thread, or to all where `thread` is empty."""

    def __init__(self, thread: str) -> None:
        self.thread = thread
        self.ended = False
        """Whether nothing comes any more."""
        self._changed: dict[str, News] = {}
        self._live: deque[News] = deque()
        self._woken = asyncio.Event()

    def tell(self, news: News) -> None:
        """Tell of a change; the newest of a kind is kept."""
        self._changed[news.name] = news
        self._woken.set()

    def tell_live(self, news: News) -> None:
        """Tell what a running turn says; who is too slow misses some of it, and is told so."""
        if len(self._live) >= _MOST_LIVE:
            self._live.clear()
            self._live.append(News("live", {"thread": self.thread, "event": {"type": "missed"}}))
        self._live.append(news)
        self._woken.set()

    def end(self) -> None:
        """Say that nothing comes any more."""
        self.ended = True
        self._woken.set()

    async def take(self, patience: float) -> list[News]:
        """Return what waits; nothing where nothing comes in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._woken.wait()
        self._woken.clear()
        taken = [*self._live, *self._changed.values()]
        self._live.clear()
        self._changed = {}
        return taken


class _Watched(Struct):
    """What was last seen of a thread."""

    last: int = 0
    requests: tuple[int, int | None] = (0, None)
    running: tuple[bool, int, int] = (False, 0, 0)
    """Whether a turn runs, which process runs it, and the number of the turn."""


class Following:
    """Tells readers what changes in a home."""

    def __init__(self, home: ShownHome) -> None:
        self._home = home
        self._readers: list[Reader] = []
        self._task: asyncio.Task[None] | None = None
        self._seen: dict[str, tuple[int, int]] = {}
        self._watched: dict[str, _Watched] = {}
        self._hearing: dict[str, asyncio.Task[None]] = {}
        """For each thread that is watched: who hears the worker that has it."""
        self._states: tuple[FileState, ...] | None = None

    @asynccontextmanager
    async def listen(self, thread: str) -> AsyncGenerator[Reader]:
        """Listen to a thread, or to all of them. Raises `TooMany`."""
        if len(self._readers) >= MOST_READERS:
            raise TooMany(f"{MOST_READERS} streams are open; close a page first")
        reader = Reader(thread)
        self._readers.append(reader)
        try:
            if thread and thread not in self._watched:
                self._watched[thread] = await self._look_at(await self._home.thread(thread))
                self._hearing[thread] = asyncio.create_task(self._hear(thread))
            if not self._seen:
                self._seen = {info.id: _stamp(info) for info in await self._newest()}
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._follow(), name=FOLLOWING)
            yield reader
        finally:
            self._readers.remove(reader)
            if not any(each.thread == thread for each in self._readers):
                self._watched.pop(thread, None)
                if (hearing := self._hearing.pop(thread, None)) is not None:
                    hearing.cancel()
            if not self._readers:
                self._seen = {}
                await self.close()

    def publish(self, thread: str, event: dict[str, Any]) -> None:
        """Pass on what a turn says that this process runs."""
        heard = [each for each in self._readers if each.thread == thread]
        if heard:
            news = News("live", {"thread": thread, "event": without_secrets(event)})
            for reader in heard:
                reader.tell_live(news)

    async def _hear(self, thread: str) -> None:
        """Pass on what a turn says that a worker runs, wherever it is."""
        token = partial(find_live_token, self._home.path)
        await hear_thread(
            self._home.store,
            thread,
            token,
            lambda event: self.publish(thread, event_json(event)),
        )

    def end_streams(self) -> None:
        """Tell all who listen that nothing comes any more, for a server would wait for them."""
        for reader in self._readers:
            reader.end()

    def changed(self, thread: str) -> None:
        """Tell that more is known of a thread: what it takes, what it cost."""
        self._tell_all([thread])

    async def close(self) -> None:
        """Stop looking, and listening."""
        for hearing in self._hearing.values():
            hearing.cancel()
        await asyncio.gather(*self._hearing.values(), return_exceptions=True)
        self._hearing = {}
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _follow(self) -> None:
        rounds = 0
        while True:
            await asyncio.sleep(PAUSE)
            rounds += 1
            states = await asyncio.to_thread(self._file_states)
            if states == self._states and rounds % (_ANYWAY if states else _OF_DATABASE):
                continue
            with suppress(TreadleError):
                await self._look()
                self._states = states

    def _file_states(self) -> tuple[FileState, ...]:
        return tuple(map(file_state, self._home.files))

    async def _look(self) -> None:
        """Read what has changed, and tell those whom it concerns."""
        newest = await self._newest()
        fresh = [info.id for info in newest if self._seen.get(info.id) != _stamp(info)]
        gone = self._seen.keys() - {info.id for info in newest} if len(newest) < _NEWEST else set()
        if fresh or gone:
            self._seen = {info.id: _stamp(info) for info in newest}
            self._tell_all([*fresh, *gone])
        for thread in list(self._watched):
            await self._look_again(thread)

    async def _newest(self) -> list[ThreadInfo]:
        return await self._home.store.thread_page(limit=_NEWEST)

    async def _look_again(self, thread: str) -> None:
        try:
            now = await self._look_at(await self._home.thread(thread))
        except NotFound:
            return  # it was deleted; the page asks again and is told so
        before = self._watched.get(thread)
        if before is None:
            return  # nobody listens to it any more
        self._watched[thread] = now
        if now.last != before.last:
            told = {"thread": thread, "first": before.last + 1, "last": now.last}
            self._tell(thread, News("entries", told))
        if now.requests != before.requests:
            self._tell(thread, News("ledger", {"thread": thread, "total": now.requests[0]}))
        if now.running != before.running:
            running, pid, turn = now.running
            writer = (await self._home.store.holders([thread])).get(thread) if pid else None
            told = {"thread": thread, "running": running, "turn": turn, "writer": writer}
            self._tell(thread, News("running", told))

    async def _look_at(self, info: ThreadInfo) -> _Watched:
        row = await self._home.index.newest_row(info.id)
        holder = living_holder((await self._home.store.holders([info.id])).get(info.id))
        turns = await self._home.store.turn_page(info.id, limit=1)
        running = holder is not None and bool(turns) and turns[0].state in _RUNNING
        return _Watched(
            info.last,
            (row.number, row.input_tokens) if row else (0, None),
            (running, holder.pid if holder else 0, info.turns),
        )

    def _tell(self, thread: str, news: News) -> None:
        for reader in self._readers:
            if reader.thread == thread:
                reader.tell(news)

    def _tell_all(self, threads: list[str]) -> None:
        for reader in self._readers:
            reader.tell(News("threads", {"threads": threads[:_NEWEST]}))


def _stamp(info: ThreadInfo) -> tuple[int, int]:
    return info.updated, info.last
