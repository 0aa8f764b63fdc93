"""The engine: finds what the present input is about in turns that are out of sight.

Owns when memory is asked and how much of it is shown. Invariants: what it is given comes
back as it is, with at most one recalled item before the present input; and whether
something is kept is decided by the runtime's signals, never by its words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from treadle.core.items import Message, text_of
from treadle.core.provenance import InputProvenance
from treadle.core.text import TruncationPolicy, truncate_text
from treadle.engines.contract import EngineInfo, TranscriptPromise
from treadle.engines.values import (
    AssembleParams,
    AssembleResult,
    BootstrapParams,
    BootstrapResult,
    CommitParams,
    CommitResult,
    CompactParams,
    CompactResult,
    ContextItem,
    Conversation,
    IngestParams,
    IngestResult,
    ResetParams,
    recall_item,
)
from treadle.tools.contract import Tool, ToolContext
from treadle.tools.decorator import tool

from .memory import Memory, Note

__all__ = ["RetrievalEngine"]

_GUIDANCE = (
    "Older turns of this thread may be out of sight. What seems to matter of them stands in "
    "<recalled_memory> before a request; call recall to look for more."
)
_TURNS = 3
"""How many turns are recalled at a time."""
_NOTE, _NOTES = TruncationPolicy("tokens", 150), TruncationPolicy("tokens", 750)
_RECALL_TOKENS = _NOTES.limit + 150
"""The most that a recalled item takes: its notes, and the words around them."""

_INFO = EngineInfo(
    id="retrieval",
    name="Retrieval",
    version="1.0.0",
    transcript=TranscriptPromise(
        current_turn_fence="before-current-turn-entry-v1",
        turn_advancement="atomic-idempotent-v1",
    ),
)


@dataclass(slots=True)
class RetrievalEngine:
    """Keeps what people and the model said, and brings it back when it is asked about."""

    memory: Memory
    info: EngineInfo = _INFO
    _tools: tuple[Tool, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._tools = (_recall_tool(self.memory),)

    async def bootstrap(self, given: BootstrapParams, /) -> BootstrapResult:
        """Forget what was hidden meanwhile; read the part of the log that was not read before."""
        thread = given.thread.id
        for hidden in given.hidden:
            await asyncio.to_thread(self.memory.forget, thread, hidden.first, hidden.last)
        start = await asyncio.to_thread(self.memory.read_up_to, thread) + 1
        past = await given.log.read(start)
        if not past.items:
            return BootstrapResult(bootstrapped=False, reason="nothing new")
        end = max(item.seq or 0 for item in past.items)
        notes = list(_notes(past))
        imported = await asyncio.to_thread(self.memory.add, thread, notes, read_up_to=end)
        return BootstrapResult(bootstrapped=True, imported=imported)

    async def ingest(self, given: IngestParams, /) -> IngestResult:
        """Keep one item. The runtime prefers `commit_turn`."""
        note = list(_notes(_alone(given)))
        return IngestResult(await asyncio.to_thread(self.memory.add, given.thread.id, note) > 0)

    async def commit_turn(self, given: CommitParams, /) -> CommitResult:
        """Keep a turn and its key, or neither."""
        notes = list(_notes(given))
        new = await asyncio.to_thread(self.memory.commit, given.thread.id, given.key, notes)
        return CommitResult("committed" if new else "duplicate")

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        """The items as they are, and before the present input what memory has on it."""
        now = len(given.items) if given.pre_prompt_count is None else given.pre_prompt_count
        memory = await self._recalled(given, now)
        items = (*given.items[:now], *memory, *given.items[now:])
        return AssembleResult(
            items=items,
            estimated_tokens=sum(item.tokens for item in items),
            system_prompt_addition=_GUIDANCE,
        )

    async def compact(self, given: CompactParams, /) -> CompactResult:
        """Leave it to the runtime: what it compacts away can be found here."""
        if given.delegate is None:
            return CompactResult(ok=False, reason="the runtime offers no compaction")
        return await given.delegate()

    async def thread_reset(self, given: ResetParams, /) -> None:
        """Forget what was hidden."""
        # A log hides what was rolled back; what was reset can still be read in it.
        read = given.last if given.reason == "reset" else None
        await asyncio.to_thread(
            self.memory.forget, given.thread.id, given.first, given.last, read_up_to=read
        )

    def tools(self) -> Sequence[Tool]:
        """`recall`."""
        return self._tools

    async def dispose(self) -> None:
        """Close the file."""
        await asyncio.to_thread(self.memory.close)

    async def _recalled(self, given: AssembleParams, now: int) -> tuple[ContextItem, ...]:
        present = range(now, len(given.items))
        question = given.prompt if any(_counts(given, at) for at in present) else None
        spare = _RECALL_TOKENS
        if given.token_budget is not None:
            spare = given.token_budget - sum(item.tokens for item in given.items[:now])
        if not question or spare < _RECALL_TOKENS:
            return ()
        seen = {item.seq for item in given.items if item.seq is not None}
        found = await asyncio.to_thread(
            self.memory.find, given.thread.id, question, turns=_TURNS, but=seen
        )
        return (recall_item(_told(found)),) if found else ()


def _recall_tool(memory: Memory) -> Tool:
    @tool(parallel=True)
    async def recall(
        query: Annotated[str, Meta(description="Words that were used then.")], context: ToolContext
    ) -> str:
        """Finds what was said in earlier turns of this thread."""
        found = await asyncio.to_thread(
            memory.find, context.thread, query, turns=2 * _TURNS, but=()
        )
        return _told(found) or "Nothing in memory has these words."

    return recall


def _told(notes: Sequence[Note]) -> str:
    """Notes as the model reads them."""
    lines = (f"turn {n.turn}, {n.speaker}: {truncate_text(n.text, _NOTE)}" for n in notes)
    return truncate_text("\n".join(lines), _NOTES)


def _notes(said: Conversation) -> Iterator[Note]:
    """The words of a conversation that are worth keeping."""
    for at, item in enumerate(said.items):
        message = item.item
        if item.seq is None or not isinstance(message, Message) or not _counts(said, at):
            continue
        if text := text_of(message.content):
            yield Note(item.seq, item.turn, _speaker(message, said.provenance[at]), text)


def _counts(said: Conversation, at: int) -> bool:
    """Whether somebody said an item who is not the runtime, as its signals tell."""
    who, events = said.provenance[at], said.internal_events[at]
    from_runtime = bool(events) or (who is not None and who.kind == "internal_system")
    return said.persist[at] and not from_runtime


def _speaker(message: Message, who: InputProvenance | None) -> str:
    elsewhere = who is not None and who.kind == "inter_session"
    return "another thread" if elsewhere else message.role


def _alone(given: IngestParams) -> Conversation:
    return Conversation(
        items=(given.item,),
        provenance=(given.provenance,),
        internal_events=(given.internal_events,),
        persist=(True,),
    )
