"""The frame of readers for APIs that stream deltas instead of items.

Owns the items that are still growing, the order of their events, and how an answer ends.
Invariant: an item begins, grows and ends before the next one begins, except calls, which
may grow side by side; only finished items are handed out whole.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from ..core.items import Item, Message, OutputText, Reasoning, ReasoningText, encode_item
from ..core.stream import (
    CompletedBody,
    IncompleteDetails,
    OutputItemAdded,
    OutputItemDone,
    OutputTextDelta,
    ReasoningTextDelta,
    ResponseBody,
    ResponseCompleted,
    ResponseCreated,
    ResponseIncomplete,
    ServerModel,
    ToolInputDelta,
    UnknownEvent,
)
from ..core.usage import WireUsage
from ..core.wire import UNREADABLE
from .contract import ModelError, ModelEvent
from .formats.chat_extras import with_extra_content
from .formats.function_calls import INPUT, FlatTool, call_item
from .item_checks import ItemChecker
from .provider_errors import error_in_stream, incomplete_answer, parse_error_body

__all__ = ["MOST_CHECKS", "CallInProgress", "FreeformDeltas", "ItemReader"]

MOST_CHECKS = 64
"""How often a call is checked for being whole before its server says that it is."""

_OPENING = re.compile(rf'\s*\{{\s*"{INPUT}"\s*:\s*"')
_LONGEST_OPENING = 1024
_CHARACTERS = re.compile(r'(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_LONGEST_ESCAPE = len(r"\ud83d\ude00")
_HALF_CHARACTER = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")
_object = msgspec.json.Decoder(dict[str, Raw])


class FreeformDeltas:
    """Reads a freeform input out of JSON arguments that are still being written."""

    def __init__(self) -> None:
        self._rest = ""
        self._inside = self._closed = False

    def feed(self, fragment: str) -> str:
        """Return the part of the input that `fragment` completes."""
        if self._closed:
            return ""
        self._rest += fragment
        if not self._inside:
            opening = _OPENING.match(self._rest)
            if opening is None:
                self._closed = len(self._rest) > _LONGEST_OPENING
                return ""
            self._inside, self._rest = True, self._rest[opening.end() :]
        return self._take_characters()

    def _take_characters(self) -> str:
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
    extra: dict[str, Any] = field(default_factory=dict)
    """What the provider added to it and wants back."""
    _pieces: list[str] = field(default_factory=list)
    _checks: int = 0

    @property
    def arguments(self) -> str:
        """The arguments so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def add_arguments(self, delta: str) -> None:
        """Append to the arguments."""
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
        """Return whether the arguments are whole already; False after `MOST_CHECKS` checks."""
        self._checks += 1
        return self._checks <= MOST_CHECKS and self.is_whole


class ItemReader(ABC):
    """An `AnswerReader` that builds items out of deltas.

    A subclass reads the events of one API in `_take` and calls the methods below. `failure`
    is why the answer cannot go on; nothing is handed out after it.
    """

    run_by_provider: ClassVar[frozenset[str]] = frozenset()
    """Types of items about tools that the provider ran itself."""

    def __init__(self, tools: Mapping[str, FlatTool], fallback_id: str = "") -> None:
        self.events: list[ModelEvent] = []
        self.complete = False
        self.failure: ModelError | None = None
        self._id, self._fallback_id = "", fallback_id
        self._tools = tools
        self._checker = ItemChecker(self.run_by_provider)
        self._thinking: list[str] | None = None
        self._text: list[str] | None = None
        self._extra: dict[str, Any] = {}
        """What the provider added to the text and wants back."""
        self._count = 0

    def read(self, payload: bytes) -> None:
        """Read one event of the stream; skip what is no JSON."""
        try:
            event = self._decode(payload)
        except msgspec.ValidationError:
            self.events.append(UnknownEvent(self._event_type(payload), Raw(payload)))
        except UNREADABLE:
            return
        else:
            self._take(event, payload)

    @abstractmethod
    def _decode(self, payload: bytes) -> Any:
        """Return the event in `payload`. Raises what msgspec raises."""

    @abstractmethod
    def _take(self, event: Any, payload: bytes) -> None:
        """Handle one event."""

    def _event_type(self, _payload: bytes, /) -> str:
        """Return the type that an event in an unknown shape claims to have."""
        return ""

    def _start(self, response_id: str, model: str | None) -> None:
        self._id = response_id
        self.events.append(ResponseCreated(ResponseBody(response_id)))
        if model:
            self.events.append(ServerModel(model))

    def _fail(self, body: bytes) -> None:
        """End with the error that the provider sent."""
        self.failure = error_in_stream(parse_error_body(body))

    def _complete(self, usage: WireUsage | None, *, end_turn: bool | None = None) -> None:
        """End the answer, unless one of its items was refused."""
        if self.failure is not None:
            return
        response_id = self._id or self._fallback_id
        self.events.append(
            ResponseCompleted(CompletedBody(id=response_id, usage=usage, end_turn=end_turn))
        )
        self.complete = True

    def _cut_short(self, reason: str, usage: WireUsage | None) -> None:
        """End an answer that the provider cut off."""
        details = IncompleteDetails(reason)
        body = ResponseBody(self._id, usage=usage, incomplete_details=details)
        self.events.append(ResponseIncomplete(body))
        self.failure = incomplete_answer(reason)

    def _add_thinking(self, delta: str) -> None:
        self._begin_thinking().append(delta)
        self.events.append(ReasoningTextDelta(0, delta))

    def _begin_thinking(self) -> list[str]:
        """Return the pieces of the reasoning that is growing; begin one if there is none."""
        if self._thinking is None:
            self._finish_text()
            self._thinking = []
            self._begin_item(Reasoning())
        return self._thinking

    def _add_text(self, delta: str) -> None:
        if self._text is None:
            self._finish_text()
            self._text = []
            self._begin_item(Message(role="assistant", content=()))
        self._text.append(delta)
        self.events.append(OutputTextDelta(delta))

    def _finish_text(self) -> None:
        """Hand out the thinking or the text that was growing."""
        if self._thinking is not None:
            text, self._thinking = "".join(self._thinking), None
            self._finish_item(self._reasoning(text))
        if self._text is not None:
            text, self._text = "".join(self._text), None
            extra, self._extra = self._extra, {}
            said = Message(role="assistant", content=(OutputText(text),))
            self._finish_item(with_extra_content(said, extra))

    def _reasoning(self, text: str) -> Reasoning:
        """Return the item for reasoning that is complete."""
        return Reasoning(content=(ReasoningText(text),))

    def _begin_call(self, name: str, call_id: str) -> CallInProgress:
        self._finish_text()
        call = CallInProgress(name, call_id, self._count)
        self._begin_item(call_item(self._tools, name, "", call_id))
        self._count += 1
        return call

    def _add_arguments(self, call: CallInProgress, delta: str) -> None:
        call.add_arguments(delta)
        tool = self._tools.get(call.name)
        if tool is not None and tool.freeform and (text := call.deltas.feed(delta)):
            self.events.append(ToolInputDelta(text, call_id=call.call_id))

    def _finish_call(self, call: CallInProgress) -> None:
        call.done = True
        item = call_item(self._tools, call.name, call.arguments or "{}", call.call_id)
        self._hand_out(with_extra_content(item, call.extra), call.index)

    def _begin_item(self, item: Item) -> None:
        """Announce an item that `_finish_item` will complete."""
        self.events.append(OutputItemAdded(Raw(encode_item(item)), self._count))

    def _finish_item(self, item: Item) -> None:
        self._hand_out(item, self._count)
        self._count += 1

    def _hand_out(self, item: Item, index: int) -> None:
        if self.failure is not None:
            return
        body = Raw(encode_item(item))
        if self._checker.admits(body):
            self.events.append(OutputItemDone(body, index))
        self.failure = self._checker.failure
