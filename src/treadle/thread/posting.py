"""Posting: an input for a thread, from somebody who does not write it.

Owns how a host leaves an input without opening the thread. Invariant: the message is durable
before anybody is told of it, and that nobody could be told loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from ..core.errors import StoreError
from ..core.files import open_regular
from ..core.home import home as default_home
from ..prompt.input import UserPart
from ..store.contract import InboxMessage, Store
from ..store.shared_store import open_shared
from ..store.work import WakesWorkers
from ..subagents import post_message
from .host_input import make_message

__all__ = ["announce", "post_input"]


async def post_input(
    thread: str,
    said: Sequence[UserPart],
    *,
    home: Path | str | None = None,
    store: Store | None = None,
    channel: str | None = None,
    key: str | None = None,
) -> str:
    """Leave an input for `thread` in a store, or in a home; return its key."""
    async with AsyncExitStack() as stack:
        if store is None:
            place = default_home() if home is None else Path(home)
            store = (await stack.enter_async_context(open_shared(place))).store
        message = await make_message(said, open_regular)
        posted: InboxMessage = await post_message(store, thread, message, channel=channel, key=key)
        await announce(store)
        return posted.key


async def announce(store: Store) -> None:
    """Wake the workers of a store, where it can; they look by themselves too, a little later."""
    if isinstance(store, WakesWorkers):
        with suppress(StoreError):
            await store.announce_work()
