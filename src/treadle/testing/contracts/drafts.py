"""Short ways to make drafts and changes in contract tests."""

from __future__ import annotations

from msgspec import Raw

from ...core.entries import Draft
from ...core.items import InputText, Message, encode_item
from ...store.contract import THIS_TURN, Admission, Change, ChangeResult, Store

__all__ = ["append", "dated_draft", "turn_change", "user_body", "user_draft"]


def user_draft(text: str, *, turn: int = 0) -> Draft:
    """Return a user message that is not stored yet."""
    return Draft(body=user_body(text), turn=turn)


def dated_draft(text: str, time: int) -> Draft:
    """Return a user message with another time."""
    return Draft(body=user_body(text), time=time)


def user_body(text: str) -> bytes:
    """Return the wire bytes of a user message."""
    return encode_item(Message(role="user", content=(InputText(text),)))


def turn_change(turn: str, *texts: str) -> Change:
    """Return a change that admits a turn and appends its messages."""
    return Change(
        admit=Admission(id=turn, input=Raw(b'"%s"' % turn.encode())),
        entries=tuple(user_draft(text, turn=THIS_TURN) for text in texts),
    )


async def append(store: Store, thread: str, *changes: Change) -> list[ChangeResult]:
    """Commit changes one after the other under a lease of their own."""
    lease = await store.acquire(thread)
    try:
        return [await store.commit(lease, change) for change in changes]
    finally:
        await lease.release()
