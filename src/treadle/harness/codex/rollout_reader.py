"""Rollouts: the files in which Codex stores its threads.

Owns reading the items of a turn, and the history that a native compaction left.
Invariant: of a file that is missing, cut short or in another format, everything that can
be read is returned; no rollout is ever written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
from msgspec import Raw, Struct

from ...context.row import shape_of
from ...core.files import open_regular
from ...core.wire import UNREADABLE
from ...models.item_checks import is_readable
from .native_projection import is_model_output

__all__ = [
    "LONGEST_LINE",
    "MOST_BYTES",
    "RolloutTurn",
    "locate_rollout",
    "newest_compaction",
    "read_turn",
    "rollout_size",
    "wait_until_settled",
]


LONGEST_LINE = 64 << 20
"""Bytes of the longest line that is read; longer lines are skipped."""
MOST_BYTES = 1 << 30
"""Bytes that are read of one rollout."""


class RolloutTurn(Struct, frozen=True):
    """The part of a rollout that belongs to one turn."""

    items: tuple[Raw, ...] = ()
    ended: Literal["completed", "aborted"] | None = None
    """None if the turn has no end."""
    answered: bool = False
    """Whether the last response was complete and ended with a message."""

    def without_summary(self) -> RolloutTurn:
        """Return the turn without the last output of the model: the summary of a compaction."""
        items = list(self.items)
        _drop_model_output(items)
        return RolloutTurn(tuple(items), self.ended)


class _Line(Struct):
    type: str
    payload: Raw = Raw(b"{}")


class _Event(Struct):
    type: str = ""


class _Compacted(Struct):
    replacement_history: tuple[Raw, ...] = ()


_line = msgspec.json.Decoder(_Line)
_event = msgspec.json.Decoder(_Event)
_compacted = msgspec.json.Decoder(_Compacted)

_SIZE_CHECKS = 20
_CHECK_SECONDS = 0.1

_COUNTED = "token_count"
"""The event after a complete response."""
_ENDINGS: dict[str, Literal["completed", "aborted"]] = {
    "task_complete": "completed",
    "turn_aborted": "aborted",
}


def rollout_size(path: str | None) -> int:
    """Return the present size of a rollout."""
    try:
        return Path(path).stat().st_size if path else 0
    except OSError:
        return 0


def locate_rollout(path: str | None, home: Path) -> str | None:
    """Return where a rollout is now, also if it was moved together with its `home`."""
    if path is None or Path(path).exists():
        return path
    head, below, tail = path.rpartition("/codex/home/")
    moved = home / "codex" / "home" / tail
    return str(moved) if head and below and moved.exists() else path


async def wait_until_settled(path: str | None) -> int:
    """Wait until nobody writes to a rollout, at most two seconds; return its size."""
    size = await asyncio.to_thread(rollout_size, path)
    for _ in range(_SIZE_CHECKS):
        await asyncio.sleep(_CHECK_SECONDS)
        before, size = size, await asyncio.to_thread(rollout_size, path)
        if size == before:
            break
    return size


def read_turn(path: str | None, offset: int) -> RolloutTurn:
    """Return the items after `offset`, and how their turn ended."""
    items: list[Raw] = []
    ended: Literal["completed", "aborted"] | None = None
    counted = 0
    for line in _lines(path, offset):
        if line.type == "response_item":
            if is_readable(line.payload):
                items.append(line.payload)
        elif line.type == "compacted":
            # The last output of the model was the summary, which is no part of the conversation.
            _drop_model_output(items)
        elif line.type == "event_msg":
            kind = _event_type(line.payload)
            ended = _ENDINGS.get(kind, ended)
            counted = len(items) if kind == _COUNTED else counted
    answered = bool(items) and counted == len(items) and shape_of(items[-1]).role == "assistant"
    return RolloutTurn(tuple(items), ended, answered or ended == "completed")


def newest_compaction(path: str | None, offset: int = 0) -> tuple[Raw, ...] | None:
    """Return the history that the newest native compaction after `offset` left, if there is one."""
    found = None
    for line in _lines(path, offset):
        if line.type == "compacted":
            try:
                history = _compacted.decode(line.payload).replacement_history
            except UNREADABLE:
                continue
            found = history if all(map(is_readable, history)) else found
    return found


def _drop_model_output(items: list[Raw]) -> None:
    while items and is_model_output(items[-1]):
        items.pop()


def _lines(path: str | None, offset: int) -> Iterator[_Line]:
    if path is None:
        return
    try:
        with open_regular(Path(path)) as file:
            file.seek(offset)
            for data in _limited_lines(file):
                try:
                    yield _line.decode(data)
                except UNREADABLE:
                    continue
    except OSError:
        return


def _limited_lines(file: BinaryIO) -> Iterator[bytes]:
    """Return the lines that are not too long, from the first `MOST_BYTES` bytes."""
    left, whole = MOST_BYTES, True
    while left > 0 and (data := file.readline(LONGEST_LINE)):
        left -= len(data)
        ends = data.endswith(b"\n")
        if whole and (ends or len(data) < LONGEST_LINE):
            yield data
        whole = ends


def _event_type(payload: Raw) -> str:
    try:
        return _event.decode(payload).type
    except UNREADABLE:
        return ""
