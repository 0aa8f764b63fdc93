"""The instant server: answers from prepared bytes, and notes when it was asked and had answered.

    http://127.0.0.1:PORT/KEY/SCRIPT/v1/responses, or …/chat/completions
    http://127.0.0.1:PORT/control/KEY hands out what was noted under a key, once, as JSON

Invariant: nothing stands between the last byte of a request and the first of its answer but
finding the answer; bodies are compared when somebody asks for the notes.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec

from .answers import RESULTS, answer, empty_answer, plain

__all__ = ["Instant", "Noted", "Notes", "reading", "results", "serve", "shared_prefix"]

_BLOCK = 1 << 14


class Asked(msgspec.Struct):
    """What a model reads of a request."""

    tools: msgspec.Raw = msgspec.Raw()
    instructions: msgspec.Raw = msgspec.Raw()
    messages: list[msgspec.Raw] = []
    input: list[msgspec.Raw] = []


_asked = msgspec.json.Decoder(Asked).decode


@dataclass(slots=True)
class Noted:
    """A request; times are nanoseconds of the machine's monotonic clock."""

    arrived: int
    script: str
    body: bytes
    began: int = 0
    done: int = 0


@dataclass(slots=True)
class Notes:
    """Requests by key."""

    requests: dict[str, list[Noted]] = field(default_factory=dict)

    def under(self, key: str) -> list[Noted]:
        """The requests of a key so far, to be added to."""
        return self.requests.setdefault(key, [])

    def handed_out(self, key: str) -> list[dict[str, int]]:
        """What was noted under a key, which is forgotten by that."""
        noted = self.requests.pop(key, [])
        if not noted:
            return []
        shared = [0, *(shared_prefix(a.body, b.body) for a, b in pairwise(noted))]
        read = [reading(each.body) for each in noted]
        kept = [0, *(shared_prefix(a, b) for a, b in pairwise(read))]
        return [
            {
                "arrived": each.arrived,
                "began": each.began,
                "done": each.done,
                "bytes": len(each.body),
                "shared": same,
                "read": len(order),
                "kept": still,
                "results": results(each),
            }
            for each, same, order, still in zip(noted, shared, read, kept, strict=True)
        ]


def results(noted: Noted) -> int:
    """How many results of the script's tool a request brings; calls that failed bring none."""
    expected = RESULTS.get(noted.script.partition("-")[0])
    return noted.body.count(expected) if expected else 0


def reading(body: bytes) -> bytes:
    """A request in the order in which models read it: tools, instructions, then the items.

    What a provider caches is a prefix of that, wherever the fields stand on the wire.
    """
    asked = _asked(body)
    return b"\n".join(map(bytes, (asked.tools, asked.instructions, *asked.messages, *asked.input)))


def shared_prefix(first: bytes, second: bytes) -> int:
    """How many bytes both begin with."""
    length = min(len(first), len(second))
    for start in range(0, length, _BLOCK):
        a, b = first[start : start + _BLOCK], second[start : start + _BLOCK]
        if a != b:
            pairs = zip(a, b, strict=False)
            return start + next(
                (place for place, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b))
            )
    return length


class Instant(asyncio.Protocol):
    """A connection that answers each request once it is whole."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.received = bytearray()
        self.wanted = 0
        self.writing: Noted | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=0)  # so that we learn of the last byte
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if len(self.received) < self.wanted:
            return
        head, found, _ = self.received.partition(b"\r\n\r\n")
        if not found:
            return
        self.wanted = len(head) + 4 + _content_length(head)
        if len(self.received) >= self.wanted:
            self._answer(bytes(head), bytes(self.received[len(head) + 4 : self.wanted]))
            del self.received[: self.wanted]
            self.wanted = 0

    def resume_writing(self) -> None:
        if self.writing is not None:
            self.writing.done = time.monotonic_ns()
            self.writing = None

    def _answer(self, head: bytes, body: bytes) -> None:
        arrived = time.monotonic_ns()
        _, key, script, *rest = head.split(b" ", 2)[1].decode().split("/")
        if key == "control":
            self.transport.write(plain(json.dumps(self.notes.handed_out(script)).encode()))
        elif head.startswith(b"GET"):
            self.transport.write(empty_answer())
        else:
            self._stream(Noted(arrived, script, body), key, rest[-1])

    def _stream(self, noted: Noted, key: str, endpoint: str) -> None:
        requests = self.notes.under(key)
        requests.append(noted)
        api = "chat" if endpoint == "completions" else "responses"
        prepared = answer(noted.script, len(requests), api)
        noted.began = time.monotonic_ns()
        self.writing = noted
        self.transport.write(prepared)
        if self.transport.get_write_buffer_size() == 0:
            self.resume_writing()


def _content_length(head: bytearray) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


async def serve(ready: Any = None) -> None:
    """Listen on a free port, tell which, and go on until cancelled."""
    notes = Notes()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Instant(notes), "127.0.0.1", 0, backlog=1_024)
    print(listening.sockets[0].getsockname()[1], file=ready or sys.stdout, flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
