"""Watching a thread that another process writes, on this machine or elsewhere.

Owns the way to what happens: entries are read from the log, which misses nothing; live events
come from whoever has the turn, as long as they can be reached. Invariants: nothing of the
thread is changed, nor its lease taken; entries come in order, each once; and the token goes to
nobody but the address that stands with the lease.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec

from ..core.entries import Entry
from ..core.errors import StoreError
from ..core.files import read_bounded
from ..core.redact import add_secrets
from ..core.served_address import LOOPBACK
from ..core.typed import decode_json
from ..harness.events import Event
from ..models.transport import AsyncTransport
from ..models.transport.contract import Timeouts
from ..models.transport.errors import TransportError
from ..store.contract import Holder, Store
from ..store.pages import PagesLog

__all__ = [
    "TOKEN_FILE",
    "TOKEN_VARIABLE",
    "Watched",
    "find_live_token",
    "hear_thread",
    "watch_thread",
]

Watched: TypeAlias = Entry | Event
"""An entry of the log, or what happens before there is one: a piece of text, a call under way."""

TOKEN_VARIABLE = "TREADLE_LIVE_TOKEN"  # noqa: S105 - the name of a variable
TOKEN_FILE = "live.token"  # noqa: S105 - the name of a file
_LOOK_SECONDS = 0.25
_PAGE = 200
_AGAIN_SECONDS = 1.0
_MOST_BEHIND = 5_000
_LONGEST_EVENT = 4 << 20


def find_live_token(home: Path, environ: Mapping[str, str] | None = None) -> str:
    """Return the token for the live events of workers; empty where this machine has none."""
    token = (os.environ if environ is None else environ).get(TOKEN_VARIABLE, "").strip()
    file = home / TOKEN_FILE
    if not token and file.exists():
        token = read_bounded(file, 1 << 12).decode(errors="replace").strip()
    add_secrets(token)
    return token


async def watch_thread(
    store: Store,
    thread: str,
    *,
    after: int = 0,
    token: str | Callable[[], str] = "",
    trouble: Callable[[str], None] = lambda _: None,
) -> AsyncGenerator[Watched, None]:
    """Yield the entries behind `after` as they are written, and live events in between.

    Without a `token`, or where the writer serves no live events, only entries come; a function is
    asked for the token before each call, for a worker may come later and make one. Never ends by
    itself. Raises `NotFound` for a thread that does not exist, also when it is deleted; a store
    that cannot be reached is told to `trouble`, and asked again.
    """
    told: asyncio.Queue[Event] = asyncio.Queue(_MOST_BEHIND)
    find = (lambda: token) if isinstance(token, str) else token
    async with _listening(store, thread, find, told):
        seen = after
        while True:
            try:
                last = (await store.info(thread)).last
                while seen < last:
                    page = await store.read(thread, seen + 1, last, limit=_PAGE)
                    for entry in page:
                        yield entry
                    seen = page[-1].seq if page else last
            except StoreError as error:
                trouble(str(error))
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            async for event in _take(told):
                yield event


async def hear_thread(
    store: PagesLog, thread: str, find: Callable[[], str], tell: Callable[[Event], None]
) -> None:
    """Tell live events of a thread, whoever has it, for ever; `find` returns the token.

    For those who read entries in a way of their own; `watch_thread` reads both.
    """
    timeouts = Timeouts(connect=5.0, idle=30.0)
    async with AsyncTransport() as transport:
        while True:
            try:
                holder = (await store.holders([thread])).get(thread)
                if holder is not None and _reaches(holder) and (token := find()):
                    url = f"{holder.address}/live/{thread}"
                    head = {"authorization": f"Bearer {token}", "accept": "text/event-stream"}
                    async with await transport.get(url, head, timeouts=timeouts) as response:
                        if response.status == 200:
                            await _hear(response.chunks(), tell)
            except (StoreError, TransportError, OSError):
                pass  # the log says all of it, a little later
            await asyncio.sleep(_LOOK_SECONDS)


async def _take(told: asyncio.Queue[Event]) -> AsyncIterator[Event]:
    """Yield live events until it is time to look at the log again."""
    clock = asyncio.get_running_loop().time
    until = clock() + _LOOK_SECONDS
    while (left := until - clock()) > 0:
        # Around the wait alone: a deadline that lasts over a `yield` would end the reader's task.
        try:
            async with asyncio.timeout(left):
                event = await told.get()
        except TimeoutError:
            return
        yield event


@asynccontextmanager
async def _listening(
    store: Store, thread: str, find: Callable[[], str], told: asyncio.Queue[Event]
) -> AsyncIterator[None]:
    if not isinstance(store, PagesLog):
        yield
        return

    def tell(event: Event) -> None:
        if not told.full():  # who reads so slowly reads it in the log
            told.put_nowait(event)

    listening = asyncio.create_task(hear_thread(store, thread, find, tell))
    try:
        yield
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


def _reaches(holder: Holder) -> bool:
    """Return whether an address is one from here: that of loopback is another machine's own."""
    host = urlsplit(holder.address).hostname if holder.address else None
    return host is not None and (host not in LOOPBACK or holder.host == socket.gethostname())


async def _hear(chunks: AsyncIterator[bytes], tell: Callable[[Event], None]) -> None:
    pending = b""
    async for chunk in chunks:
        *whole, pending = (pending + chunk).split(b"\n\n")
        if len(pending) > _LONGEST_EVENT:
            return
        for each in whole:
            if each.startswith(b"data: "):
                try:
                    event: Event = decode_json(each[6:], Event)
                except msgspec.DecodeError:
                    continue  # a newer worker's
                tell(event)
