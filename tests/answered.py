"""Threads whose answers were given at known times, with known usage."""

from __future__ import annotations

from msgspec.structs import replace

from treadle.core.entries import (
    Control,
    Draft,
    Epoch,
    Head,
    Reason,
    RequestMark,
    ResponseMark,
    control_draft,
)
from treadle.core.usage import TokenUsage
from treadle.core.wire import json_bytes
from treadle.store.contract import Change, Lease
from treadle.store.sqlite import SqliteStore

SOL = Head(provider="openai", model="gpt-6.1-sol")
OPUS = Head(provider="anthropic", api="messages", model="claude-opus-5-5")


class Answered:
    """Writes a thread as a runtime would have."""

    def __init__(self, store: SqliteStore, thread: str, lease: Lease) -> None:
        self.store, self.thread, self.lease, self.seq = store, thread, lease, 0

    @classmethod
    async def begin(cls, store: SqliteStore, cwd: str = "/project") -> Answered:
        info = await store.create(cwd=cwd)
        return cls(store, info.id, await store.acquire(info.id))

    async def write(self, *drafts: Draft) -> None:
        done = await self.store.commit(self.lease, Change(entries=drafts))
        self.seq = done.entries[-1].seq

    async def control(self, control: Control, time: int, turn: int = 1) -> int:
        await self.write(replace(control_draft(control, turn=turn, step=1), time=time))
        return self.seq

    async def use(self, head: Head, time: int) -> None:
        digest = await self.store.put_blob(self.thread, json_bytes(head))
        await self.control(Epoch(reason=Reason.MODEL, head=digest), time)

    async def ask(self, time: int, turn: int = 1) -> int:
        mark = RequestMark(upto=self.seq, epoch=1, digest="b2:0", size=1, items=1)
        return await self.control(mark, time, turn)

    async def answer(self, usage: TokenUsage | None, time: int, **fields: object) -> None:
        asked = await self.ask(time)
        mark = ResponseMark(asked, "completed", usage=usage)
        await self.control(replace(mark, **fields), time)
