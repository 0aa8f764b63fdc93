"""The mirror: what a Codex thread says and does, as entries of ours.

Owns which raw items become entries and that each does so once. Invariant: what we sent
ourselves and what Codex tells its model about the surroundings is not mirrored; anything
else is, so that the log can be shown again on either harness.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET, Raw, Struct

from ...context.compose import item_draft, recordable
from ...core.entries import Entry, Flags, Origin
from ...core.items import (
    CustomToolCallOutput,
    FunctionCallOutput,
    Item,
    Message,
    Unknown,
    decode_item,
    text_of,
)
from ...log.thread_log import ThreadLog
from .protocol.requests import TextInput, UserInput
from .provided import is_codex_context

__all__ = ["HARNESS", "Echo", "Mirror", "MirrorResult"]

HARNESS = "codex"
"""What is mirrored says that it comes from there."""


class Echo(Struct, frozen=True):
    """Something of ours that Codex will tell back."""

    text: str
    mail: int | None = None
    """Its number in the inbox, where it came from there."""

    @classmethod
    def of(cls, parts: Sequence[UserInput], mail: int | None = None) -> Echo:
        """What was typed."""
        texts = (part.text for part in parts if isinstance(part, TextInput))
        return cls("\n".join(texts), mail)


class MirrorResult(Struct, frozen=True):
    """What became of a raw item."""

    item: Item | None = None
    """None where it was ours, or told the surroundings."""
    entries: tuple[Entry, ...] = ()
    echo: Echo | None = None


@dataclass(slots=True)
class Mirror:
    """Mirrors one Codex thread into one thread of ours."""

    log: ThreadLog
    instructions: str = ""
    """The fingerprint of what the thread was started with: Codex tells it back."""
    expected_echoes: deque[Echo] = field(default_factory=deque)
    """What was sent and has not come back yet, in order."""
    seen_ids: set[str] = field(default_factory=set)
    """Ids that are in the log."""

    @property
    def origin(self) -> Origin:
        """Where mirrored items come from."""
        return msgspec.structs.replace(self.log.origin, harness=HARNESS)

    @property
    def awaits_input(self) -> bool:
        """Whether a turn's input was typed that Codex has not taken into its thread yet."""
        return any(echo.mail is None for echo in self.expected_echoes)

    async def write(self, raw: Raw) -> MirrorResult:
        """Log an item, unless it is known or not ours to log."""
        told = decode_item(raw)
        item = _plain(told)
        name = None if isinstance(item, Unknown) else getattr(item, "id", None)
        if (name is not None and name in self.seen_ids) or not recordable(item):
            return MirrorResult()
        if self._is_answered(item):
            return MirrorResult()
        if isinstance(told, Message) and told.role in ("user", "developer"):
            if (echo := self._echo(told)) is not None:
                return MirrorResult(echo=echo)
            if not self.is_codex_context(told):
                await self._added(item)
            return MirrorResult()
        entries = await self.log.append(item, origin=self.origin)
        if name is not None:
            self.seen_ids.add(name)
        return MirrorResult(item, entries)

    def _is_answered(self, item: Item) -> bool:
        """Whether `item` is one more result of a call: a provider may tell a call twice."""
        if not isinstance(item, FunctionCallOutput | CustomToolCallOutput):
            return False
        waiting = self.log.view.open_calls
        return all(row.shape.call_id != item.call_id for row in waiting)

    def is_codex_context(self, message: Message) -> bool:
        """Whether `message` is neither ours nor the model's."""
        return is_codex_context(message, self.log.registry, self.instructions)

    def _echo(self, message: Message) -> Echo | None:
        """What `message` tells back: the same words, or what is due, for Codex may respell it."""
        if message.role != "user" or not self.expected_echoes:
            return None
        text = text_of(message.content)
        found = next((echo for echo in self.expected_echoes if echo.text == text), None)
        if found is None and not self.is_codex_context(message):
            found = self.expected_echoes[0]
        if found is not None:
            self.expected_echoes.remove(found)
        return found

    async def _added(self, message: Item) -> None:
        """Log what Codex has added to the conversation, such as a skill that was mentioned."""
        log = self.log
        draft = item_draft(
            message,
            turn=log.turn,
            step=log.step,
            origin=self.origin,
            flags=Flags.CONTEXTUAL | Flags.HIDDEN,
        )
        await log.add(draft)


def _plain(item: Item) -> Item:
    """`item` without what Codex notes on it for itself."""
    if isinstance(item, Unknown) or getattr(item, "metadata", UNSET) is UNSET:
        return item
    return msgspec.structs.replace(item, metadata=UNSET)
