"""Evidence: what hosts were told while they ran, and where to look afterwards.

Owns the acknowledgements and their one-line form. Invariant: a line is written as soon as
its event arrives, in one write, so that a killed process leaves complete lines behind.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from ...core.wire import json_bytes
from ...harness.events import (
    Event,
    ItemCompleted,
    NoticeRaised,
    ToolFinished,
    TurnCompleted,
    TurnStarted,
)

__all__ = [
    "Ack",
    "AckRecorder",
    "Begun",
    "Ended",
    "EngineUse",
    "Evidence",
    "Logged",
    "Returned",
    "Submitted",
    "digest",
    "read_acks",
]

EngineUse: TypeAlias = Literal["linear", "lossless"]


class Submitted(Struct, frozen=True, tag="said"):
    """A host is about to submit `text`, which it uses nowhere else, as a turn."""

    thread: str
    turn: str
    text: str


class Begun(Struct, frozen=True, tag="begun"):
    """A turn was admitted."""

    thread: str
    turn: str
    number: int


class Logged(Struct, frozen=True, tag="logged"):
    """An item is in the log, under this number and with this digest."""

    thread: str
    seq: int
    digest: str


class Returned(Struct, frozen=True, tag="returned"):
    """A call has a durable result."""

    thread: str
    call: str
    success: bool


class Ended(Struct, frozen=True, tag="ended"):
    """A turn is over, and that is durable unless its event said otherwise."""

    thread: str
    turn: str
    status: str
    durable: bool = True


Ack: TypeAlias = Submitted | Begun | Logged | Returned | Ended
_decoder = msgspec.json.Decoder(Ack)


def digest(body: bytes) -> str:
    """Return the digest by which items are compared."""
    return hashlib.blake2b(bytes(body), digest_size=16).hexdigest()


_LOG_FOLLOWS = ("exec_command", "apply_patch", "web_search")
"""Tools that Codex runs itself; the log gets them afterwards."""

_UNWRITTEN = "cannot be written to the log"
"""Part of the warning that results of this turn are not durable."""


@dataclass(slots=True)
class AckRecorder:
    """Records the events that a host gets; `write` is called with one line at a time."""

    write: Callable[[bytes], object]
    _on_codex: set[str] = field(default_factory=set)
    _warned: set[str] = field(default_factory=set)
    """Threads whose host was warned that the log cannot be written."""

    def record_input(self, thread: str, turn: str, text: str) -> None:
        """Record an input before it is submitted."""
        self.record(Submitted(thread, turn, text))

    def record_event(self, thread: str, event: Event) -> None:
        """Record an event, if it acknowledges something."""
        match event:
            case TurnStarted(turn=turn, number=number, harness=harness):
                (self._on_codex.add if harness == "codex" else self._on_codex.discard)(thread)
                self._warned.discard(thread)
                self.record(Begun(thread, turn, number))
            case NoticeRaised(level="warning", text=text) if _UNWRITTEN in text:
                self._warned.add(thread)
            case ItemCompleted(seq=seq, item=item):
                self.record(Logged(thread, seq, digest(item)))
            case ToolFinished(call_id=call, success=success, name=name):
                follows = thread in self._on_codex and name in _LOG_FOLLOWS
                if not (follows or thread in self._warned):
                    self.record(Returned(thread, call, success))
            case TurnCompleted(turn=turn, status=status, error=error) if turn:
                durable = status != "completed" or error is None
                self.record(Ended(thread, turn, status, durable))

    def record(self, ack: Struct) -> None:
        """Write a line."""
        self.write(json_bytes(ack) + b"\n")


def read_acks(lines: Iterable[bytes]) -> Iterator[Ack]:
    """Yield the acknowledgements among `lines`; skip a line that was cut off."""
    for line in lines:
        try:
            yield _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue


@dataclass(slots=True)
class Evidence:
    """Where to look, and what to look for; what is left out is not checked."""

    homes: tuple[Path, ...]
    """Treadle's homes: each with its log, its index and its engines."""
    acks: tuple[Ack, ...] = ()
    words: str = ""
    """A regular expression of words that a model writes once, or as often as in `sent`."""
    sent: Counter[str] = field(default_factory=Counter)
    """How often the provider sent a word or the id of a call, where that was not once."""
    strays: frozenset[str] = frozenset()
    """Calls whose results a model made up without having made the call."""
    effects: Counter[str] | None = None
    """How often each call was carried out, by its id."""
    engines: dict[str, EngineUse] = field(default_factory=dict)
    """Which engine a thread was run with; only turns of these are expected in it."""
    secrets: tuple[str, ...] = ()
    """Planted secrets that must not be found."""
    foreign: tuple[str, ...] = ()
    """Parts of the paths of files that another program writes; secrets there count apart."""
    files: tuple[Path, ...] = ()
    """Directories that are searched for the secrets, file by file."""
    mark: str = ""
    """Stands in the environment, the arguments or the directory of every process."""
