"""Following a rollout: the raw items of a Codex thread that was resumed.

Codex sends raw items only of threads that it has started in the same process, but a rollout
holds the same items in the same order. Owns reading them and the moment at which each is
due. The file and the notifications run ahead of each other, so an item is due with the
notification that names it or one of its successors. Invariants: items come once and in the
order of the file; a call comes before the server asks for its result; when the end of a
turn is told, all its items have been; what an earlier turn wrote late, because the disk was
full, is of no turn that follows; what never reaches the file is made from what is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from ...context.row import shape_of
from ...core.files import open_regular
from ...core.redact import blank_json
from ...core.wire import UNREADABLE
from ...models.item_checks import is_readable
from .errors import CodexProtocolError
from .protocol.notifications import (
    ItemCompletedNotification,
    ItemStartedNotification,
    Notification,
    RawItemNotification,
    RawResponseNotification,
    TurnCompletedNotification,
)
from .protocol.server_requests import ServerRequest, ToolCallRequest
from .protocol.types import (
    AgentMessageItem,
    CompactionItem,
    ReasoningItem,
    TokenCounts,
    TurnItem,
    parse_item,
)
from .unwritten_items import unwritten_call, unwritten_items

__all__ = ["RolloutTail"]

_END_SECONDS = 5.0
"""How long the end of a turn may take to reach the file after it was told."""
_CALL_SECONDS = 2.0
"""How long a call may take to reach the file after the server has asked for its result."""
_SCRIPT_SECONDS = 0.05
"""The same while a script of the model runs: its own calls never reach the file."""
_CHECK_SECONDS = 0.005
_CHUNK = 4 << 20

_STARTS = ("task_started", "turn_started")
_ENDINGS = ("task_complete", "turn_aborted")
_SCRIPT = "custom_tool_call"
_OUTPUTS = ("message", "reasoning", "call")
_CALLING = ("call", "usage")


_AFTER_RESULTS = (AgentMessageItem, ReasoningItem, CompactionItem)
"""Items that start when all calls before them have their results."""


class _ItemName(Struct, frozen=True):
    id: str = ""


class _Event(Struct):
    type: str = ""
    turn_id: str = ""
    item: _ItemName = _ItemName()


class _Counts(Struct):
    total_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    reasoning_output_tokens: int | None = None


class _Usage(Struct):
    response_id: str = ""
    usage: _Counts | None = None


class _FileLine(Struct):
    type: str
    payload: Raw = Raw(b"{}")


_file_line = msgspec.json.Decoder(_FileLine)
_event = msgspec.json.Decoder(_Event)
_usage = msgspec.json.Decoder(_Usage)


class _Line(Struct, frozen=True):
    """A line that has been read and is not due yet."""

    names: tuple[str, ...] = ()
    """The names under which notifications speak of it."""
    kind: str = ""
    """What the model wrote: ``message``, ``reasoning`` or ``call``; ``usage`` ends a response."""
    item: Raw | None = None
    usage: _Usage | None = None
    starts: str = ""
    """The turn whose lines follow."""
    is_end: bool = False
    compacts: bool = False

    @property
    def is_output(self) -> bool:
        """Say whether it may be a part of a response, or stands between such parts."""
        return bool(self.kind) or (self.item is None and not self.names and not self.is_end)

    def notification(self, thread_id: str, turn_id: str) -> Notification | None:
        """Return the notification that Codex would have sent."""
        if self.item is not None:
            return RawItemNotification(thread_id=thread_id, turn_id=turn_id, item=self.item)
        if self.usage is None:
            return None
        counts = self.usage.usage
        return RawResponseNotification(
            thread_id=thread_id,
            turn_id=turn_id,
            response_id=self.usage.response_id,
            usage=None if counts is None else TokenCounts(**msgspec.structs.asdict(counts)),
        )


class RolloutTail:
    """Reads what is appended to the rollout of a thread, from `offset` on."""

    def __init__(self, thread_id: str, path: Path, offset: int) -> None:
        self._thread_id, self._path, self._offset = thread_id, path, offset
        self._rest = b""
        self._lines: list[_Line] = []
        """Those of the newest turn that has begun in the file."""
        self._turn = ""
        self._told: set[str] = set()
        """The names of lines that were due."""
        self._calls: set[str] = set()
        """Calls that have no result yet."""
        self._ended_calls: set[str] = set()
        """Those of responses that have ended."""
        self._scripts: set[str] = set()
        """Those that are scripts of the model."""
        self._ended: list[TurnItem] = []
        """What the server has told as done in this turn."""
        self._made: set[str] = set()
        """What was told although it was not in the file."""

    async def before(self, event: Notification) -> list[Notification]:
        """Return what is due before a notification. Nothing is lost if it is cancelled.

        Raises `CodexProtocolError` if the file lacks the end of a turn that was completed.
        """
        match event:
            case TurnCompletedNotification():
                return await self._finish(event)
            case ItemStartedNotification():
                item = parse_item(event.item)
                has_begun = await self._has_begun(event.turn_id)
                if isinstance(item, _AFTER_RESULTS) and self._find(_has_name(item.id)) is None:
                    await self._read_results()
                    if self._ended_calls and not self._calls_run_beside(item):
                        return self._make_up(event.turn_id)
                count = self._count_until_start(item) if has_begun else 0
                return self._take(count, event.turn_id)
            case ItemCompletedNotification():
                item = parse_item(event.item)
                self._ended.append(item)
                if await self._has_begun(event.turn_id):
                    return self._take(self._count_until_end(item), event.turn_id)
        return []

    def _calls_run_beside(self, item: TurnItem) -> bool:
        """Say whether calls may still run: those of a script, or one that asks meanwhile."""
        return bool(self._scripts) or getattr(item, "delivery", None) == "async"

    async def before_request(self, request: ServerRequest) -> list[Notification]:
        """Return what is due before a request of the server: the call that it is about."""
        name = getattr(request, "call_id", "") or getattr(request, "item_id", "")
        if not name or name in self._told or request.turn_id is None:
            return []
        seconds = _SCRIPT_SECONDS if self._scripts else _CALL_SECONDS
        at = await self._wait_for(_has_name(name), seconds)
        if at is not None:
            return self._take(self._after_calls(at), request.turn_id)
        if self._scripts or not isinstance(request, ToolCallRequest):
            return []
        due = self._make_up(request.turn_id)
        for names in (self._told, self._made, self._calls, self._ended_calls):
            names.add(name)
        return [*due, self._raw_item(unwritten_call(request), request.turn_id)]

    def _count_until_start(self, item: TurnItem) -> int:
        """Return how many lines are due before an item starts.

        A call starts after it was told, and its response with it. What a compaction has
        written is due with its end.
        """
        if isinstance(item, CompactionItem):
            count = _position(self._lines, lambda line: line.compacts)
            while count and self._lines[count - 1].is_output:
                count -= 1
            return count
        at = self._find(_has_name(item.id))
        if at is None:
            return _position(self._lines, lambda line: line.kind in _OUTPUTS)
        return self._after_calls(at)

    def _after_calls(self, at: int) -> int:
        """Return the position after the calls at `at`, and after the response that they end."""
        while at < len(self._lines) and self._lines[at].kind in _CALLING:
            at += 1
        return at

    def _count_until_end(self, item: TurnItem) -> int:
        """Return how many lines are due before an item ends; without a name, it is the next."""
        wanted = _has_name(item.id)
        named = [at for at, line in enumerate(self._lines) if wanted(line)]
        if named:
            return named[-1] + 1
        kinds = {AgentMessageItem: "message", ReasoningItem: "reasoning"}
        at = self._find(lambda line: line.kind == kinds.get(type(item)))
        return 0 if at is None else at + 1

    async def _has_begun(self, turn_id: str) -> bool:
        await self._read()
        return self._turn == turn_id

    async def _finish(self, event: TurnCompletedNotification) -> list[Notification]:
        """Return what is due at the end of a turn; what the file lacks is made."""
        turn = event.turn.id
        at = await self._wait_for(lambda line: line.is_end and self._turn == turn, _END_SECONDS)
        if at is None and event.turn.status == "completed":
            raise CodexProtocolError(
                f"Codex's file {str(self._path)!r} lacks the end of a turn; is the disk full? "
                "The next turn continues from the log"
            )
        due = self._make_up(turn) if at is None else self._take(at + 1, turn)
        self._ended.clear()
        return due

    def _make_up(self, turn_id: str) -> list[Notification]:
        """Return what the file has of a turn, and make what it should have."""
        due = self._take(len(self._lines) if self._turn == turn_id else 0, turn_id)
        made = list(unwritten_items(self._ended, self._told, self._calls))
        ended = {item.id for item in self._ended}
        self._made |= ended - self._told
        self._told |= ended
        self._calls -= ended
        self._ended_calls.clear()
        return due + [self._raw_item(item, turn_id) for item in made]

    def _raw_item(self, item: Raw, turn_id: str) -> RawItemNotification:
        return RawItemNotification(thread_id=self._thread_id, turn_id=turn_id, item=item)

    def _take(self, count: int, turn_id: str) -> list[Notification]:
        due, self._lines = self._lines[:count], self._lines[count:]
        self._told.update(name for line in due for name in line.names)
        told = [line.notification(self._thread_id, turn_id) for line in due]
        return [notification for notification in told if notification is not None]

    def _find(self, wanted: Callable[[_Line], bool]) -> int | None:
        return next((at for at, line in enumerate(self._lines) if wanted(line)), None)

    async def _wait_for(self, wanted: Callable[[_Line], bool], seconds: float) -> int | None:
        """Return the position of the first line that is `wanted`; None if it does not come."""
        for _ in range(int(seconds / _CHECK_SECONDS)):
            await self._read()
            if (at := self._find(wanted)) is not None:
                return at
            await asyncio.sleep(_CHECK_SECONDS)
        return None

    async def _read_results(self) -> None:
        """Read until no call of a response that has ended lacks its result."""
        for _ in range(int(_CALL_SECONDS / _CHECK_SECONDS)):
            if not self._ended_calls:
                return
            await asyncio.sleep(_CHECK_SECONDS)
            await self._read()

    async def _read(self) -> None:
        while data := await asyncio.to_thread(_read_after, self._path, self._offset):
            self._offset += len(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for each in lines:
                if (line := self._parse(each)) is not None:
                    self._add(line)

    def _add(self, line: _Line) -> None:
        """Keep a line; the start of a turn ends what those before it have left."""
        if line.starts:
            self._turn = line.starts
            for left in (self._lines, self._calls, self._ended_calls, self._scripts):
                left.clear()
        elif line.kind and not self._made.isdisjoint(line.names):
            # It was told without the file; reasoning must not stand behind what it led to.
            while self._lines and self._lines[-1].kind == "reasoning":
                self._lines.pop()
        else:
            self._lines.append(line)

    def _parse(self, data: bytes) -> _Line | None:
        """Return a line that matters; None for any other."""
        try:
            # Models, commands and files may tell a key.
            line = _file_line.decode(blank_json(data))
            match line.type:
                case "response_item" if is_readable(line.payload):
                    return self._parse_item(line.payload)
                case "token_usage_record":
                    self._ended_calls |= self._calls
                    return _Line(kind="usage", usage=_usage.decode(line.payload))
                case "compacted":
                    return _Line(compacts=True)
                case "event_msg":
                    event = _event.decode(line.payload)
                    names = (event.item.id,) if event.item.id else ()
                    starts = event.turn_id if event.type in _STARTS else ""
                    return _Line(names=names, starts=starts, is_end=event.type in _ENDINGS)
        except UNREADABLE:
            return None
        return None

    def _parse_item(self, item: Raw) -> _Line:
        shape = shape_of(item)
        call, name = shape.call_id or "", shape.id or ""
        if shape.type.endswith("_output"):
            self._calls.discard(call)
            self._ended_calls.discard(call)
            self._scripts.discard(call)
            # It comes after the end of what the call did, which has the same name.
            return _Line(names=(name,), item=item)
        if shape.type.endswith("_call"):
            self._calls |= {call} if call else set()
            self._scripts |= {call} if shape.type == _SCRIPT else set()
            return _Line(names=(name, call), kind="call", item=item)
        kind = shape.type if shape.role in (None, "assistant") else ""
        return _Line(names=(name,), kind=kind if kind in _OUTPUTS else "", item=item)


def _position(lines: Sequence[_Line], wanted: Callable[[_Line], bool]) -> int:
    """Return the position of the first line that is `wanted`; else the number of lines."""
    return next((at for at, line in enumerate(lines) if wanted(line)), len(lines))


def _has_name(name: str) -> Callable[[_Line], bool]:
    return lambda line: bool(name) and name in line.names


def _read_after(path: Path, offset: int) -> bytes:
    try:
        with open_regular(path) as file:
            file.seek(offset)
            return file.read(_CHUNK)
    except OSError:
        return b""
