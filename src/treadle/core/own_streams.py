"""Own streams: standard input and output, for a protocol that has both to itself.

Owns the two streams and the lines on them. Invariants: standard output carries what is written
here and nothing else, whatever the process or its children print; a line longer than the limit
is refused and never held; and an input that never ends does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import BinaryIO

__all__ = ["OwnStreams", "take_streams"]

_AHEAD = 16
"""How many lines are read before they are taken."""


class OwnStreams:
    """Both streams of the process, line by line."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source, self._sink = source, sink
        self._writing = asyncio.Lock()

    async def lines(self, longest: int) -> AsyncGenerator[bytes, None]:
        """Yield the lines that come in; of one that is too long, one byte too many."""
        lines: asyncio.Queue[bytes] = asyncio.Queue(_AHEAD)
        loop = asyncio.get_running_loop()
        # A daemon, so that it does not keep the process from ending.
        reader = threading.Thread(
            target=self._read, args=(lines, loop, longest), name="treadle-input", daemon=True
        )
        reader.start()
        while line := await lines.get():
            yield line

    async def write(self, line: bytes) -> None:
        """Write a whole line. A reader that is gone is no error: the end of the input follows."""
        async with self._writing:
            with suppress(BrokenPipeError):
                await asyncio.to_thread(self._write_all, line)

    def _read(
        self, lines: asyncio.Queue[bytes], loop: asyncio.AbstractEventLoop, longest: int
    ) -> None:
        line = b" "
        with suppress(RuntimeError, CancelledError):  # the loop has ended
            while line:
                line = self._next_line(longest)
                asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()

    def _next_line(self, longest: int) -> bytes:
        """Return the next line; of one that is too long, one byte too many, and skip its rest."""
        try:
            line = rest = self._source.readline(longest + 1)
            while len(line) > longest and rest and not rest.endswith(b"\n"):
                rest = self._source.readline(longest)
        except (OSError, ValueError):
            return b""
        return line

    def _write_all(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            view = view[self._sink.write(view) :]


@contextmanager
def take_streams() -> Iterator[OwnStreams]:
    """Take over both streams: from now on others read nothing and print to standard error."""
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # Not closed: a thread may still wait for the input when the process ends.
    reader = os.fdopen(source, "rb", closefd=False)
    writer = os.fdopen(sink, "wb", buffering=0, closefd=False)
    yield OwnStreams(reader, writer)
