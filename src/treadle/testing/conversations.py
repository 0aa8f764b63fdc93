"""Conversations for tests of engines.

Owns a conversation that never ran: its items, their signals, and the parameters that a
runtime would make of them. Invariant: items have ids, numbers and order as the runtime
gives them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..context.row import shape_of
from ..context.rules import Pairing
from ..context.tokens import estimate_item
from ..core.items import (
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Item,
    Message,
    OutputText,
    encode_item,
    text_of,
)
from ..core.provenance import InputProvenance, InternalEvent
from ..engines.contract import ContextEngine
from ..engines.conversation import PROMPT
from ..engines.lazy_sequence import LazySequence
from ..engines.values import (
    AssembleParams,
    AssembleResult,
    CommitParams,
    ContextItem,
    Conversation,
    LogReader,
    ThreadRef,
    TurnOutcome,
)
from ..store.contract import Hit, Hits, Search

__all__ = [
    "ANNOUNCED",
    "ANNOUNCEMENT",
    "SIGNALS",
    "SUBJECT",
    "ConversationRow",
    "FakeConversation",
    "assemble_recall",
    "bodies",
    "conversation_fields",
    "pairing_faults",
    "random_conversation",
    "token_size",
]

SUBJECT = "zebra"
"""The word that turns are about, and that a later prompt asks for."""

ANNOUNCED = InputProvenance(
    kind="inter_session",
    source_thread="thr_child",
    source_tool="subagent_announce",
    source_role="subagent",
)
ANNOUNCEMENT = InternalEvent(
    source="subagent", child_thread="thr_child", task="count", status="ok", result="four"
)


SIGNALS: tuple[dict[str, Any], ...] = (
    {},
    {"persist": False},
    {"provenance": ANNOUNCED},
    {"events": (ANNOUNCEMENT,)},
    {"provenance": InputProvenance(kind="internal_system")},
    {"provenance": InputProvenance(kind="external_user")},
    {"provenance": ANNOUNCED, "events": (ANNOUNCEMENT,), "persist": False},
)
"""Signals that a runtime may give with an input."""

_WORDS = (SUBJECT, "heron", "stripes", "water", "and", "the", "sleeps", "naïve", "🦓", "'\"*")


@dataclass(slots=True, kw_only=True)
class ConversationRow:
    """An item and its signals."""

    item: ContextItem
    provenance: InputProvenance | None = None
    events: tuple[InternalEvent, ...] | None = None
    persist: bool = True


@dataclass(slots=True)
class FakeConversation:
    """The conversation of a thread so far; it is its own log, unless there is a real one."""

    thread: str = "thr_contract"
    rows: list[ConversationRow] = field(default_factory=list)
    turns: int = 0
    log: LogReader | None = None

    @property
    def ref(self) -> ThreadRef:
        """Return the reference to the thread."""
        return ThreadRef(id=self.thread, root=self.thread, cwd="/project")

    async def read(self, first: int = 1, last: int | None = None) -> Conversation:
        """Return the conversation between two entries."""
        end = len(self.rows) if last is None else last
        return Conversation(**conversation_fields(self.rows[first - 1 : end]))

    async def search(self, query: str, *, limit: int = 20) -> Sequence[tuple[int, str]]:
        """Return the entries that contain `query`."""
        found = [
            (seq, query) for seq, row in enumerate(self.rows, 1) if query.encode() in row.item.body
        ]
        return found[:limit]

    async def spans(self, spans: Sequence[tuple[int, int]]) -> Conversation:
        """Return the conversation in several ranges of entries."""
        rows = [row for first, last in spans for row in self.rows[max(first, 1) - 1 : last]]
        return Conversation(**conversation_fields(rows))

    async def find(self, query: Search | str, *, limit: int = 20) -> Hits:
        """Return hits for the entries that contain `query`, with what stands around it."""
        asked = query if isinstance(query, Search) else Search(query, limit=limit)
        found = await self.search(asked.text, limit=asked.limit)
        return Hits(Hit(self.thread, seq, 1.0, self._passage(seq, asked)) for seq, _ in found)

    def _passage(self, seq: int, asked: Search) -> str:
        item = self.rows[seq - 1].item.item
        text = text_of(item.content) if isinstance(item, Message) else asked.text
        first = max(text.find(asked.text) - asked.snippet // 2, 0)
        return text[first : first + asked.snippet]

    async def end(self) -> int:
        """Return the number of the newest entry."""
        return len(self.rows)

    async def times(self, entries: Sequence[int]) -> dict[int, int]:
        """Return when entries were stored: one in each millisecond."""
        return {seq: seq for seq in entries if 0 < seq <= len(self.rows)}

    async def of(self, thread: str) -> LogReader | None:
        """Return itself for its own thread; it knows no other."""
        return self if thread == self.thread else None

    def turn(self, asked: str, answer: str = "Noted.", **signals: Any) -> CommitParams:
        """Add a turn with a call in it, and return it as it would be committed."""
        self.turns += 1
        first = len(self.rows) + 1
        call = f"call_{self.turns}"
        self._add(Message(role="user", content=(InputText(asked),)), 0, **signals)
        self._add(FunctionCall(name="look", arguments="{}", call_id=call), 1)
        self._add(FunctionCallOutput(call_id=call, output="There it is."), 1)
        self._add(Message(role="assistant", content=(OutputText(answer),)), 2)
        rows = self.rows[first - 1 :]
        accepted: TurnOutcome = "accepted"
        return CommitParams(
            thread=self.ref,
            log=self.log or self,
            key=f"{self.thread}/turn_{self.turns}",
            turn=f"turn_{self.turns}",
            number=self.turns,
            first=first,
            last=len(self.rows),
            outcomes=(accepted,) * len(rows),
            **conversation_fields(rows),
        )

    def assemble_params(
        self,
        prompt: str | None,
        *,
        visible: int | None = None,
        token_budget: int | None = None,
        **signals: Any,
    ) -> AssembleParams:
        """Return the parameters to assemble the next turn; `visible` items are in view."""
        rows = self.rows[len(self.rows) - visible :] if visible is not None else list(self.rows)
        before = len(rows)
        if prompt is not None:
            body = encode_item(Message(role="user", content=(InputText(prompt),)))
            named = ContextItem(body=body, id=f"{self.thread}:{PROMPT}", tokens=_tokens(body))
            rows.append(ConversationRow(item=named, **signals))
        return AssembleParams(
            thread=self.ref,
            log=self.log or self,
            token_budget=token_budget,
            model="scripted:contract",
            prompt=prompt,
            pre_prompt_count=before,
            **conversation_fields(rows),
        )

    def _add(self, item: Item, step: int, **signals: Any) -> None:
        seq, body = len(self.rows) + 1, encode_item(item)
        named = ContextItem(
            body=body,
            id=f"{self.thread}:{seq}",
            seq=seq,
            turn=self.turns,
            step=step,
            tokens=_tokens(body),
        )
        self.rows.append(ConversationRow(item=named, **signals))


def conversation_fields(rows: Sequence[ConversationRow]) -> dict[str, Any]:
    """Return rows as the fields of a conversation, computed on access like a runtime's."""
    kept, at = tuple(rows), list(range(len(rows)))
    return {
        "items": LazySequence(at, lambda row: kept[row].item),
        "provenance": LazySequence(at, lambda row: kept[row].provenance),
        "internal_events": LazySequence(at, lambda row: kept[row].events),
        "persist": LazySequence(at, lambda row: kept[row].persist),
    }


def random_conversation(chance: random.Random) -> tuple[FakeConversation, list[CommitParams]]:
    """Return a random conversation and its turns."""
    conversation = FakeConversation()
    turns = []
    for _ in range(chance.randrange(1, 7)):
        asked = " ".join(chance.choices(_WORDS, k=chance.randrange(1, 60)))
        answer = " ".join(chance.choices(_WORDS, k=chance.randrange(1, 200)))
        turns.append(conversation.turn(asked, answer, **chance.choice(SIGNALS)))
    return conversation, turns


async def assemble_recall(
    engine: ContextEngine, conversation: FakeConversation, prompt: str = SUBJECT
) -> AssembleResult:
    """Assemble a view in which nothing of `conversation` is visible, so that all is recalled."""
    return await engine.assemble(conversation.assemble_params(prompt, visible=0))


def bodies(result: AssembleResult) -> bytes:
    """Return every byte of a view."""
    return b"\n".join(item.body for item in result.items)


def token_size(items: Sequence[ContextItem], prompt: ContextItem) -> int:
    """Return the tokens of items besides the present input, counted from their bytes."""
    return sum(_tokens(item.body) for item in items if item != prompt)


def pairing_faults(items: Sequence[ContextItem]) -> list[str]:
    """Return calls without outputs, and outputs without calls."""
    return list(_faults(items))


def _faults(items: Sequence[ContextItem]) -> Iterator[str]:
    pairing = Pairing()
    for position, item in enumerate(items):
        if not pairing.admits(shape_of(item.body), position):
            yield f"item {position} answers no call, or one that was answered"
    for position in pairing.open.values():
        yield f"item {position} is a call that nothing answers"


def _tokens(body: bytes) -> int:
    return estimate_item(ContextItem(body=body).item, len(body))
