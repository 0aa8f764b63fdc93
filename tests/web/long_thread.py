"""A long thread, written at once: real requests in a real log, without a model.

Each turn has an input, a call, its output and an answer; every so often the thread is compacted,
so that the view stays as long as that of a thread somebody works in.
"""

from __future__ import annotations

import msgspec

from treadle.context.ledger import Ledger
from treadle.context.request import Renderer, Request
from treadle.context.row import Row
from treadle.context.view import View, load_view
from treadle.core.entries import (
    Draft,
    Epoch,
    Head,
    Inline,
    Range,
    Reason,
    Recipe,
    RequestMark,
    ResponseMark,
    SettingsChange,
    control_draft,
)
from treadle.core.items import (
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Item,
    Message,
    OutputText,
    encode_item,
)
from treadle.core.text import approx_tokens
from treadle.core.usage import TokenUsage
from treadle.core.wire import json_bytes
from treadle.prompt.registry import Registry
from treadle.store.contract import Change, Index, PastTurn
from treadle.store.sqlite import SqliteStore

__all__ = ["write_long_thread"]

COMPACT_EVERY = 40
"""Turns of an epoch."""
BATCH = 50
"""Turns in one transaction."""
START = 1_750_000_000_000
PER_TURN = 8


async def write_long_thread(
    store: SqliteStore, index: Index, entries: int, *, title: str = "A long thread"
) -> str:
    """Write a thread of about so many entries; return its id."""
    writer = _Writer(store, index)
    await writer.begin(title)
    turns = max(entries // PER_TURN, 1)
    for first in range(0, turns, BATCH):
        await writer.write(first, min(first + BATCH, turns))
    await index.newest_row(writer.thread)
    return writer.thread


class _Writer:
    def __init__(self, store: SqliteStore, index: Index) -> None:
        self._store, self._index = store, index
        self._registry = Registry()
        self.thread = ""
        self._seq = 0
        self._noted: list[tuple[Request, int]] = []

    async def begin(self, title: str) -> None:
        info = await self._store.create(cwd="/project", title=title)
        self.thread = info.id
        head = Head(provider="scripted", model="sonata", instructions="Be brief. " * 40)
        self._head = await self._store.put_blob(info.id, json_bytes(head))
        self._ledger = Ledger(info.id, self._store, self._index)
        lease = await self._store.acquire(info.id)
        drafts = (
            control_draft(SettingsChange({})),
            control_draft(Epoch(reason=Reason.START, head=self._head, recipe=Recipe())),
        )
        await self._store.commit(lease, Change(entries=drafts))
        await lease.release()
        self._seq = len(drafts)
        await self._load()

    async def _load(self) -> None:
        self._view: View = await load_view(self._store, self.thread, self._registry)
        self._renderer = Renderer()

    async def write(self, first: int, end: int) -> None:
        """Write the turns from `first` to before `end` in one transaction for each epoch."""
        turns: list[PastTurn] = []
        for number in range(first, end):
            if number and number % COMPACT_EVERY == 0:
                await self._commit(turns)
                turns = []
                await self._compact(number)
            turns.append(self._turn(number))
        await self._commit(turns)

    def _turn(self, number: int) -> PastTurn:
        time = START + number * 60_000
        drafts = [self._add(_said("user", f"Step {number}: look at file_{number}.py"), time, 0)]
        drafts.append(self._ask(time + 100))
        name = f"call_{number}"
        arguments = json_bytes({"cmd": f"cat file_{number}.py"}).decode()
        call = FunctionCall(name="exec_command", arguments=arguments, call_id=name)
        drafts.append(self._add(call, time + 900, 1))
        drafts.append(self._answered(time + 900, 1))
        lines = "\n".join(f"{number}.{at} = {at * 7919 % 997}" for at in range(12))
        drafts.append(self._add(FunctionCallOutput(call_id=name, output=lines), time + 1_000, 1))
        drafts.append(self._ask(time + 1_100))
        said = f"file_{number}.py has 12 lines; file_{number - 1}.py had as many."
        drafts.append(self._add(_said("assistant", said), time + 2_000, 2))
        drafts.append(self._answered(time + 2_000, 2))
        return PastTurn(id=f"turn_long_{number}", input=msgspec.Raw(b"{}"), entries=tuple(drafts))

    def _add(self, item: Item, time: int, step: int) -> Draft:
        body = encode_item(item)
        self._seq += 1
        draft = Draft(body=body, time=time, step=step, tokens=approx_tokens(len(body)))
        self._view.add(Row.of_draft(draft, self._seq), self._registry)
        return draft

    def _ask(self, time: int) -> Draft:
        self._view.upto = self._seq
        request = self._renderer.render(self._view)
        mark = RequestMark(
            upto=self._seq,
            epoch=self._view.epoch,
            digest=request.digest,
            size=len(request.body),
            items=request.items,
        )
        self._seq += 1
        self._asked, self._request = self._seq, request
        self._noted.append((request, self._seq))
        return msgspec.structs.replace(control_draft(mark, step=1), time=time)

    def _answered(self, time: int, step: int) -> Draft:
        size = len(self._request.body) // 4
        usage = TokenUsage(
            input_tokens=size,
            cached_input_tokens=size - 300 if self._view.rows[:-4] else 0,
            output_tokens=60,
            total_tokens=size + 60,
        )
        self._seq += 1
        mark = ResponseMark(request=self._asked, status="completed", usage=usage)
        return msgspec.structs.replace(control_draft(mark, step=step), time=time)

    async def _commit(self, turns: list[PastTurn]) -> None:
        if not turns:
            return
        lease = await self._store.acquire(self.thread)
        await self._store.commit(lease, Change(past=tuple(turns)))
        await lease.release()
        written = {
            entry.seq: entry
            for entry in await self._store.read_kinds(
                self.thread, {"request", "response"}, self._noted[0][1], limit=2 * len(self._noted)
            )
        }
        usages = {
            control.request: control.usage
            for entry in written.values()
            if isinstance(control := entry.control, ResponseMark)
        }
        for request, seq in self._noted:
            await self._ledger.record(request, written[seq])
            if (usage := usages[seq]) is not None:
                await self._index.record_usage(self.thread, seq, usage)
        self._noted.clear()

    async def _compact(self, number: int) -> None:
        """Begin a new epoch: a summary, and the last turn as it was."""
        summary = _said("user", f"Summary: files 0 to {number - 1} were looked at.")
        parts = (
            Inline(body=msgspec.Raw(encode_item(summary)), tokens=20),
            Range(self._seq - PER_TURN + 1, self._seq),
        )
        epoch = Epoch(reason=Reason.COMPACTION, head=self._head, recipe=Recipe(parts), by="runtime")
        lease = await self._store.acquire(self.thread)
        await self._store.commit(lease, Change(entries=(control_draft(epoch),)))
        await lease.release()
        self._seq += 1
        await self._load()


def _said(role: str, text: str) -> Message:
    part = OutputText(text=text) if role == "assistant" else InputText(text=text)
    return Message(role=role, content=(part,))
