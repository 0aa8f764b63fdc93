"""The mirror: the items of a Codex thread as entries of the thread's log.

Owns which raw items become entries, that each does so once, and the items that the log
could not take yet. Codex has already acted when Treadle learns of an item, so a full disk
or a lost lease stops nothing: the user is warned, and the items are written later, in
order. Invariants: everything is mirrored except what Treadle sent, context of Codex's own
and items that neither a model nor Codex may say, of which the user is told; an item is
written after those before it, unless the log never takes one of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct

from ...context.compose import is_recordable, item_draft
from ...core.entries import Entry, Flags, Origin
from ...core.errors import LeaseLost, StoreError
from ...core.items import (
    AgentMessage,
    CustomToolCallOutput,
    FunctionCallOutput,
    Item,
    Message,
    ToolSearchCall,
    Unknown,
    decode_item,
    item_type,
    text_of,
)
from ...log.thread_log import ThreadLog
from ...models.item_checks import is_model_item, is_tool_output
from ...prompt.engine_fragments import quote_engine_parts
from ...prompt.registry import Registry
from ...prompt.skill_fragments import Skill
from ..contract import TurnRun
from ..events import NoticeRaised
from .codex_options import HARNESS
from .native_projection import is_codex_context
from .protocol.client_requests import TextInput, UserInput

__all__ = [
    "LOG_ERRORS",
    "DeferredLog",
    "Echo",
    "Mirror",
    "MirrorResult",
    "is_codex_item",
    "quote_message",
]

LOG_ERRORS = (StoreError, LeaseLost)
"""The errors of a log that does not take an entry."""

T = TypeVar("T")

_LONGEST_NAME = 40


class Echo(Struct, frozen=True):
    """An input of Treadle's that Codex will send back as an item."""

    text: str
    mail: int | None = None
    """Its number in the inbox, if it came from there."""

    @classmethod
    def of(cls, parts: Sequence[UserInput], mail: int | None = None) -> Echo:
        """Return the echo of user input."""
        texts = (part.text for part in parts if isinstance(part, TextInput))
        return cls("\n".join(texts), mail)


class MirrorResult(Struct, frozen=True):
    """What the mirror did with a raw item."""

    entries: tuple[Entry, ...] = ()
    echo: Echo | None = None


@dataclass(slots=True)
class Mirror:
    """Writes the items of one Codex thread to the log of one thread."""

    log: ThreadLog
    instructions: str = ""
    """The fingerprint of the thread's instructions, which Codex sends back."""
    expected_echoes: deque[Echo] = field(default_factory=deque)
    """The inputs that were sent and have not come back yet, in order."""
    seen_ids: set[str] = field(default_factory=set)
    """The ids of items that are in the log."""

    @property
    def origin(self) -> Origin:
        """Return the origin of mirrored items."""
        return msgspec.structs.replace(self.log.origin, harness=HARNESS)

    @property
    def sealing_origin(self) -> Origin:
        """Return the origin of what a compaction of Codex's leaves."""
        return msgspec.structs.replace(self.log.sealing_origin, harness=HARNESS)

    @property
    def awaits_input(self) -> bool:
        """Say whether Codex has not yet added the input of the turn to its thread."""
        return any(echo.mail is None for echo in self.expected_echoes)

    async def write(self, raw: Raw) -> MirrorResult:
        """Write an item to the log, unless it is known or does not belong there."""
        decoded = decode_item(raw)
        item = _without_metadata(decoded)
        name = None if isinstance(item, Unknown) else getattr(item, "id", None)
        if (name is not None and name in self.seen_ids) or not is_recordable(item):
            return MirrorResult()
        if self._is_second_output(item):
            return MirrorResult()
        if not is_codex_item(item):
            await self.log.note(
                f"an item of the type {item_type(item)[:_LONGEST_NAME]!r} in Codex's thread was "
                "left out: nobody may say it",
                level="warning",
            )
            return MirrorResult()
        if isinstance(decoded, Message) and decoded.role in ("user", "developer"):
            if (echo := self._take_echo(decoded)) is not None:
                return MirrorResult(echo=echo)
            if not self.is_codex_context(decoded):
                await self._write_addition(quote_message(decoded, self.log.registry))
            return MirrorResult()
        entries = await self.log.append(item, origin=self.origin)
        if name is not None:
            self.seen_ids.add(name)
        return MirrorResult(entries)

    def is_codex_context(self, message: Message) -> bool:
        """Say whether `message` is context of Codex's own."""
        return is_codex_context(message, self.log.registry, self.instructions)

    def _is_second_output(self, item: Item) -> bool:
        """Say whether `item` is a result of no open call: a provider may send a call twice."""
        if not isinstance(item, FunctionCallOutput | CustomToolCallOutput):
            return False
        return all(row.shape.call_id != item.call_id for row in self.log.view.open_calls)

    def _take_echo(self, message: Message) -> Echo | None:
        """Take the echo that `message` is: with the same text, else the next one.

        Codex may change the text of an input.
        """
        if message.role != "user" or not self.expected_echoes:
            return None
        text = text_of(message.content)
        found = next((echo for echo in self.expected_echoes if echo.text == text), None)
        if found is None and not self.is_codex_context(message):
            found = self.expected_echoes[0]
        if found is not None:
            self.expected_echoes.remove(found)
        return found

    async def _write_addition(self, message: Item) -> None:
        """Write a message that Codex has added to the conversation, such as a mentioned skill."""
        draft = item_draft(
            message,
            turn=self.log.turn,
            step=self.log.step,
            origin=self.origin,
            flags=Flags.CONTEXTUAL | Flags.HIDDEN,
        )
        await self.log.add(draft)


def is_codex_item(item: Item) -> bool:
    """Say whether an item is one that a model, a tool or Codex itself may have said."""
    if isinstance(item, Message):
        return item.role in ("assistant", "user", "developer")
    known = isinstance(item, AgentMessage | ToolSearchCall) or is_tool_output(item)
    return known or is_model_item(item)


def quote_message(message: Message, registry: Registry) -> Message:
    """Return a message that is not the model's in the user's role, without markers.

    A text that is a skill, which Codex adds where one is mentioned, keeps its own.
    """
    if message.role == "assistant":
        return message
    content = quote_engine_parts(message.content, registry.vocabulary, (Skill,))
    return msgspec.structs.replace(message, role="user", content=content, metadata=UNSET)


def _without_metadata(item: Item) -> Item:
    """Return `item` without the notes that Codex makes for itself."""
    if isinstance(item, Unknown) or getattr(item, "metadata", UNSET) is UNSET:
        return item
    return msgspec.structs.replace(item, metadata=UNSET)


class _PendingItem(NamedTuple):
    """An item that the log has not taken yet."""

    mirror: Mirror
    raw: Raw
    step: int


@dataclass(slots=True)
class DeferredLog:
    """Writes to the log during one turn, and keeps what the log does not take for later."""

    run: TurnRun
    error: str = ""
    """The newest error of the log."""
    _pending: deque[_PendingItem] = field(default_factory=deque)

    @property
    def pending(self) -> int:
        """Return the number of items that wait to be written."""
        return len(self._pending)

    async def write_item(self, mirror: Mirror, raw: Raw) -> list[MirrorResult]:
        """Write an item after the pending ones; return the results of all that were written."""
        self._pending.append(_PendingItem(mirror, raw, self.run.log.step))
        return await self.write_pending()

    async def write_pending(self) -> list[MirrorResult]:
        """Write the pending items up to the first error; return their results."""
        results: list[MirrorResult] = []
        while self._pending and (result := await self._write(self._pending[0])) is not None:
            self._pending.popleft()
            results.append(result)
        return results

    async def attempt(self, work: Awaitable[T]) -> T | None:
        """Await a write and return its result; on an error of the log, warn and return None."""
        try:
            return await work
        except LOG_ERRORS as error:
            if not self.error:
                self.warn(
                    f"what Codex does cannot be written to the log: {error}; Codex continues, "
                    "and the entries are written as soon as the log takes them"
                )
            self.error = str(error)
            return None

    async def write_or_drop(self) -> int:
        """Write the pending items; return how many the log refuses while it takes others.

        Raises the error of a log that takes nothing.
        """
        await self.write_pending()
        if not self._pending:
            return 0
        note = "the log lacks some of what Codex did in this turn"
        await self.run.log.note(note, level="warning")
        refused = [item for item in self._pending if await self._write(item) is None]
        self._pending.clear()
        return len(refused)

    def drop_pending(self) -> None:
        """Forget the pending items."""
        self._pending.clear()

    def warn(self, text: str) -> None:
        """Send the user a warning."""
        self.run.emit(NoticeRaised(level="warning", text=text))

    async def _write(self, item: _PendingItem) -> MirrorResult | None:
        """Write an item with the step in which it came."""
        log = self.run.log
        now, log.step = log.step, item.step
        try:
            return await self.attempt(item.mirror.write(item.raw))
        finally:
            log.step = now
