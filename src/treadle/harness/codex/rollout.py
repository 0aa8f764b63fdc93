"""Rollouts: the files in which Codex keeps its threads.

Owns reading what a turn left there, and what a native compaction made of the history.
Invariant: a file that is gone, cut short or of another shape yields what can be read of
it; it is never written to.
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
from ...models.soundness import is_readable
from .provided import is_model_output

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
"""Bytes of the longest line that is read; longer ones are passed over."""
MOST_BYTES = 1 << 30
"""Bytes that are read of one rollout."""


class RolloutTurn(Struct, frozen=True):
    """What a turn left in a rollout."""

    items: tuple[Raw, ...] = ()
    ended: Literal["completed", "aborted"] | None = None
    """None where it never came to an end."""
    answered: bool = False
    """Whether the model had said all: its response was over, and ended with words."""

    def without_summary(self) -> RolloutTurn:
        """The same without what a model answered last: a fold was under way, nobody said it."""
        items = list(self.items)
        _drop_answer(items)
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

_LOOKS = 20
_BETWEEN = 0.1

_COUNTED = "token_count"
"""What follows a response that is over."""
_ENDINGS: dict[str, Literal["completed", "aborted"]] = {
    "task_complete": "completed",
    "turn_aborted": "aborted",
}


def rollout_size(path: str | None) -> int:
    """How long the rollout is now."""
    try:
        return Path(path).stat().st_size if path else 0
    except OSError:
        return 0


def locate_rollout(path: str | None, home: Path) -> str | None:
    """Where a rollout lies now, also where it moved with the `home` that it was written in."""
    if path is None or Path(path).exists():
        return path
    head, below, tail = path.rpartition("/codex/home/")
    moved = home / "codex" / "home" / tail
    return str(moved) if head and below and moved.exists() else path


async def wait_until_settled(path: str | None) -> int:
    """How long the rollout is, once whoever writes it has stopped; or after two seconds."""
    size = await asyncio.to_thread(rollout_size, path)
    for _ in range(_LOOKS):
        await asyncio.sleep(_BETWEEN)
        before, size = size, await asyncio.to_thread(rollout_size, path)
        if size == before:
            break
    return size


def read_turn(path: str | None, offset: int) -> RolloutTurn:
    """The items behind `offset`, and how the turn ended that they belong to."""
    items: list[Raw] = []
    ended: Literal["completed", "aborted"] | None = None
    counted = 0
    for line in _lines(path, offset):
        if line.type == "response_item":
            if is_readable(line.payload):
                items.append(line.payload)
        elif line.type == "compacted":
            # What a model answered last was the summary, which nobody said.
            _drop_answer(items)
        elif line.type == "event_msg":
            kind = _kind(line.payload)
            ended = _ENDINGS.get(kind, ended)
            counted = len(items) if kind == _COUNTED else counted
    answered = bool(items) and counted == len(items) and shape_of(items[-1]).role == "assistant"
    return RolloutTurn(tuple(items), ended, answered or ended == "completed")


def _drop_answer(items: list[Raw]) -> None:
    while items and is_model_output(items[-1]):
        items.pop()


def newest_compaction(path: str | None, offset: int = 0) -> tuple[Raw, ...] | None:
    """The history that the newest native compaction behind `offset` left, if there was one."""
    found = None
    for line in _lines(path, offset):
        if line.type == "compacted":
            try:
                history = _compacted.decode(line.payload).replacement_history
            except UNREADABLE:
                continue
            found = history if all(map(is_readable, history)) else found
    return found


def _lines(path: str | None, offset: int) -> Iterator[_Line]:
    if path is None:
        return
    try:
        with open_regular(Path(path)) as file:
            file.seek(offset)
            for data in _bounded(file):
                try:
                    yield _line.decode(data)
                except UNREADABLE:
                    continue
    except OSError:
        return


def _bounded(file: BinaryIO) -> Iterator[bytes]:
    """The lines that are not too long, of as much as is read."""
    left, whole = MOST_BYTES, True
    while left > 0 and (data := file.readline(LONGEST_LINE)):
        left -= len(data)
        ends = data.endswith(b"\n")
        if whole and (ends or len(data) < LONGEST_LINE):
            yield data
        whole = ends


def _kind(payload: Raw) -> str:
    try:
        return _event.decode(payload).type
    except UNREADABLE:
        return ""
