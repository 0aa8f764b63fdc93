"""A past for a thread of Treadle, written in bulk as turns that happened elsewhere."""

from __future__ import annotations

from pathlib import Path

from common import ANSWER, QUESTION
from msgspec import Raw

from treadle import SqliteStore
from treadle.context.compose import item_draft
from treadle.core.items import Message, OutputText, encode_item
from treadle.prompt.input import user_message
from treadle.store.contract import THIS_TURN, Change, PastTurn

__all__ = ["write_past"]


async def write_past(home: Path, thread: str, turns: int) -> None:
    """Put turns of question and answer into a thread that nobody writes."""
    past = tuple(map(happened, range(turns)))
    async with await SqliteStore.open(home) as store:
        lease = await store.acquire(thread)
        await store.commit(lease, Change(past=past))
        await lease.release()


def happened(number: int) -> PastTurn:
    """A turn that happened elsewhere."""
    said = user_message(f"{QUESTION} ({number}).")
    answered = Message(role="assistant", content=(OutputText(ANSWER),))
    drafts = [item_draft(item, turn=THIS_TURN, step=1) for item in (said, answered)]
    return PastTurn(id=f"past_{number}", input=Raw(encode_item(said)), entries=tuple(drafts))
