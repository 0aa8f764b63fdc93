"""Items put together from deltas, for APIs that stream no items of their own.

Owns the one item that is open and the order of its events. Invariant: an item begins,
grows and is done before the next one begins, calls apart, which may grow side by side;
only what is done is ever handed out whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from ..core.items import Item, Message, OutputText, Reasoning, ReasoningText, encode_item
from ..core.patterns import regex
from ..core.stream import (
    OutputItemAdded,
    OutputItemDone,
    OutputTextDelta,
    ReasoningTextDelta,
    ToolInputDelta,
)
from ..core.wire import UNREADABLE
from .contract import ModelError, ModelEvent
from .formats.tools import INPUT, FlatTool, call_item
from .soundness import ItemChecker

__all__ = ["MOST_CHECKS", "CallInProgress", "FreeformDeltas", "ItemBuilder"]

MOST_CHECKS = 64
"""How often it is looked whether a call is whole before its server has said so."""

_OPENING = regex(rf'\s*\{{\s*"{INPUT}"\s*:\s*"')
_LONGEST_OPENING = 1024
_CHARACTERS = regex(r'(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_LONGEST_ESCAPE = len(r"\ud83d\ude00")
_HALF_CHARACTER = regex(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")
_object = msgspec.json.Decoder(dict[str, Raw])


class FreeformDeltas:
    """Reads a freeform input out of JSON arguments that are still being written."""

    def __init__(self) -> None:
        self._rest = ""
        self._inside = self._closed = False

    def feed(self, fragment: str) -> str:
        """The part of the input that `fragment` completes."""
        if self._closed:
            return ""
        self._rest += fragment
        if not self._inside:
            opening = _OPENING.match(self._rest)
            if opening is None:
                self._closed = len(self._rest) > _LONGEST_OPENING
                return ""
            self._inside, self._rest = True, self._rest[opening.end() :]
        return self._characters()

    def _characters(self) -> str:
        found = _CHARACTERS.match(self._rest)
        assert found is not None
        safe = _HALF_CHARACTER.sub("", found[0])
        ended = self._rest[found.end() : found.end() + 1] == '"'
        self._rest = self._rest[len(safe) :]
        # What waits for its end for so long will never be a character.
        self._closed = ended or len(self._rest) > _LONGEST_ESCAPE
        text: str = json.loads(f'"{safe}"', strict=False)
        return text.encode(errors="replace").decode()


@dataclass(slots=True)
class CallInProgress:
    """A call whose arguments are still coming."""

    name: str
    call_id: str
    index: int
    done: bool = False
    deltas: FreeformDeltas = field(default_factory=FreeformDeltas)
    _pieces: list[str] = field(default_factory=list)
    _doubts: int = 0

    @property
    def arguments(self) -> str:
        """What has come of them."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def add_arguments(self, delta: str) -> None:
        """More of them."""
        self._pieces.append(delta)

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are an object, so that nothing can be missing."""
        try:
            _object.decode(self.arguments)
        except UNREADABLE:
            return False
        return True

    def looks_whole(self) -> bool:
        """Whether the arguments are whole already; after `MOST_DOUBTS` it is not looked again."""
        self._doubts += 1
        return self._doubts <= MOST_CHECKS and self.is_whole


@dataclass(slots=True)
class ItemBuilder:
    """Gathers what a model says and calls into items."""

    tools: Mapping[str, FlatTool]
    events: list[ModelEvent] = field(default_factory=list)
    error: ModelError | None = None
    """Why the answer cannot go on; what was handed out before is sound."""
    _soundness: ItemChecker = field(default_factory=ItemChecker)
    _thinking: list[str] | None = None
    _text: list[str] | None = None
    _count: int = 0

    def add_thinking(self, delta: str) -> None:
        """More reasoning."""
        if self._thinking is None:
            self.finish_text()
            self._thinking = []
            self.begin(Reasoning())
        self._thinking.append(delta)
        self.events.append(ReasoningTextDelta(0, delta))

    def add_text(self, delta: str) -> None:
        """More text."""
        if self._text is None:
            self.finish_text()
            self._text = []
            self.begin(Message(role="assistant", content=()))
        self._text.append(delta)
        self.events.append(OutputTextDelta(delta))

    def begin_call(self, name: str, call_id: str) -> CallInProgress:
        """The start of a call."""
        self.finish_text()
        call = CallInProgress(name, call_id, self._count)
        self.begin(call_item(self.tools, name, "", call_id))
        self._count += 1
        return call

    def add_arguments(self, call: CallInProgress, delta: str) -> None:
        """More of a call's arguments."""
        call.add_arguments(delta)
        tool = self.tools.get(call.name)
        if tool is not None and tool.freeform and (text := call.deltas.feed(delta)):
            self.events.append(ToolInputDelta(text, call_id=call.call_id))

    def finish_call(self, call: CallInProgress) -> None:
        """A call is complete."""
        call.done = True
        arguments = call.arguments or "{}"
        self._hand_out(call_item(self.tools, call.name, arguments, call.call_id), call.index)

    def finish_text(self) -> None:
        """What was being thought or said is complete."""
        if self._thinking is not None:
            text, self._thinking = "".join(self._thinking), None
            self.finish(Reasoning(content=(ReasoningText(text),)))
        if self._text is not None:
            text, self._text = "".join(self._text), None
            self.finish(Message(role="assistant", content=(OutputText(text),)))

    def finish(self, item: Item) -> None:
        """An item that is complete and was the open one."""
        self._hand_out(item, self._count)
        self._count += 1

    def begin(self, item: Item) -> None:
        """The start of an item that `done` will complete."""
        self.events.append(OutputItemAdded(Raw(encode_item(item)), self._count))

    def _hand_out(self, item: Item, index: int) -> None:
        body = Raw(encode_item(item))
        self.error = self.error or self._soundness.error(body)
        if self.error is None:
            self.events.append(OutputItemDone(body, index))
