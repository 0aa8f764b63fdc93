"""A thread in memory and short names for what happens in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from treadle.context.request import HEAD_SEGMENTS
from treadle.core.entries import Node
from treadle.core.items import (
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Item,
    Message,
    OutputText,
    Reasoning,
    encode_item,
)
from treadle.prompt import AgentsDocs, PromptContext
from treadle.store.contract import LedgerRow, Store
from treadle.store.index import MemoryIndex
from treadle.store.memory import MemoryStore
from treadle.testing.thread_keywords import open_keywords
from treadle.thread.thread import Thread

MODEL, OTHER_MODEL, BLIND_MODEL = "openai:gpt-5.5", "openai:gpt-5.2", "openai:unheard-of"

CONTEXT = PromptContext(
    cwd="/repo",
    sandbox_mode="workspace-write",
    agents_docs=AgentsDocs("/repo", "Run the tests."),
    model="gpt-5.5",
)


def answer(text: str = "done") -> Message:
    return Message(id="msg_1", role="assistant", content=(OutputText(text=text),))


def reasoning(n: int | str = 1) -> Reasoning:
    return Reasoning(id=f"rs_{n}", encrypted_content=f"sealed {n}")


def call(n: int | str = 1, command: str = "ls") -> FunctionCall:
    return FunctionCall(
        id=f"fc_{n}",
        name="exec_command",
        arguments=f'{{"cmd":"{command}"}}',
        call_id=f"call_{n}",
    )


def output(n: int | str = 1, text: str = "README.md") -> FunctionCallOutput:
    return FunctionCallOutput(call_id=f"call_{n}", output=text)


def user(text: str) -> Message:
    return Message(role="user", content=(InputText(text=text),))


def verdict(row: LedgerRow) -> str:
    """What the ledger says of a request, in one line."""
    shared = max(row.shared_segments - HEAD_SEGMENTS, 0)
    broke = f"; {row.reason} at {row.difference}" if row.difference else ""
    return f"epoch {row.epoch}; {shared} items shared{broke}"


@dataclass
class Scene:
    """A thread and the context its next turn will see."""

    thread: Thread
    context: PromptContext = CONTEXT
    ledger: list[LedgerRow] = field(default_factory=list)

    def change(self, **fields: Any) -> None:
        self.context = msgspec.structs.replace(self.context, **fields)

    async def say(self, text: str) -> None:
        await self.thread.log.turns.admit(text, context=self.context)

    async def send(self) -> LedgerRow:
        self.ledger.append(await self.thread.log.requests.record(self.thread.request()))
        return self.ledger[-1]

    async def step(self, *items: Item) -> LedgerRow:
        row = await self.send()
        await self.thread.log.requests.record_answer(items)
        return row

    async def turn(self, text: str, *items: Item) -> LedgerRow:
        await self.say(text)
        row = await self.step(*(items or (answer(f"answer to {text}"),)))
        await self.thread.log.turns.finish()
        return row

    async def call_tool(self, n: int | str, result: str = "README.md") -> LedgerRow:
        row = await self.step(reasoning(n), call(n))
        await self.thread.log.append(output(n, result))
        return row

    async def summary(self, n: int, first: int, last: int) -> Node:
        body = encode_item(user(f"summary {n}"))
        blob = await self.thread.store.put_blob(self.thread.id, body)
        return Node(id=f"sum_{n}", blob=blob, first=first, last=last, tokens=4)

    def nodes(self) -> list[Node]:
        """The summaries that the view shows."""
        return [row.node for row in self.thread.view.rows if row.node is not None]

    def start_of_turn(self) -> int:
        """Where the rows of the present turn begin."""
        turns = [row.turn for row in self.thread.view.rows]
        return turns.index(self.thread.log.turn)


@asynccontextmanager
async def open_thread(
    store: Store, thread: str | None = None, *, model: str | None = MODEL, **options: Any
) -> AsyncIterator[Thread]:
    """A thread with an index of its own, which is gone afterwards."""
    index = MemoryIndex(store)
    try:
        async with Thread.open(
            thread, **open_keywords(store=store, index=index, model=model, cwd="/repo", **options)
        ) as found:
            yield found
    finally:
        await index.close()


@asynccontextmanager
async def scene(store: Store | None = None, **options: Any) -> AsyncIterator[Scene]:
    async with open_thread(store or MemoryStore(), **options) as thread:
        yield Scene(thread)
