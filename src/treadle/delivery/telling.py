"""What the log says of a turn that is to be told.

Invariant: the log is read backwards from the turn's end, and no further than its answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Literal

from msgspec import structs

from ..core.entries import Entry, ResponseMark
from ..core.errors import NotFound
from ..core.items import Message, decode_item, text_of
from ..store.contract import Store, TurnState
from .decision import TurnFacts
from .outbox import OwedTurn
from .payload import Reply, final_reply

__all__ = ["turn_facts"]

_PAGE = 64
_FATES: dict[TurnState, Literal["failed", "aborted"]] = {"failed": "failed", "aborted": "aborted"}
_COMMENTARY = "commentary"


async def turn_facts(
    store: Store, thread: str, owed: OwedTurn, readable: Callable[[str], bool] | None = None
) -> TurnFacts:
    """All that is known of a turn: what its row says, and what its log does."""
    state = (await store.turn(thread, owed.turn)).state
    said, error = await _last_words(store, thread, owed.turn)
    status = _FATES.get(state, "completed")
    if status == "completed":
        replies = (final_reply(said, token=owed.facts.token, readable=readable),) if said else ()
    else:
        # What a turn said before it failed is no answer of it.
        replies = (Reply(text=said, kind="block"),) if said else ()
    return structs.replace(owed.facts, status=status, replies=replies, failure=error)


async def _last_words(store: Store, thread: str, turn: int) -> tuple[str, str]:
    """The last message of a turn that is no commentary, and why the turn failed if it did."""
    aside = error = ""
    async for entry in _backwards(store, thread, turn):
        if entry.turn != turn:
            continue
        error = error or _error(entry)
        if (message := _message(entry)) is not None:
            text = text_of(message.content)
            if text and message.phase != _COMMENTARY:
                return text, error
            aside = aside or text
    return aside, error


async def _backwards(store: Store, thread: str, turn: int) -> AsyncIterator[Entry]:
    first = (await store.turn(thread, turn)).first
    try:
        last = (await store.turn(thread, turn + 1)).first - 1
    except NotFound:
        last = (await store.info(thread)).last
    while last >= first:
        page = await store.read(thread, first, last, reverse=True, limit=_PAGE)
        for entry in page:
            yield entry
        last = page[-1].seq - 1 if page else 0


def _message(entry: Entry) -> Message | None:
    item = decode_item(entry.body) if entry.kind == "item" else None
    return item if isinstance(item, Message) and item.role == "assistant" else None


def _error(entry: Entry) -> str:
    control = entry.control if entry.kind == "response" else None
    return control.error or "" if isinstance(control, ResponseMark) else ""
