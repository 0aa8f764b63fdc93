"""The client of the pipe: an executor whose machine is at the other end.

Owns the connection and what waits for a reply. Invariant: a call that is cancelled leaves
nothing behind at the far end, and every call ends when the connection does.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from asyncio.subprocess import Process as Subprocess
from asyncio.subprocess import create_subprocess_exec
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from ...core.wire import UNREADABLE
from ..executor import Bounds, ProcessSpec
from ..local.streams import Stream
from .protocol import (
    Apply,
    Close,
    Kill,
    MessagePipe,
    Operation,
    Output,
    PipeReply,
    PipeRequest,
    Read,
    Start,
    TakeRefusals,
    Type,
    Wait,
    Write,
    decode_reply,
    encode,
)

__all__ = ["PipeExecutor", "PipedProcess"]

_EXIT_SECONDS = 5.0
_GONE = "the other end of the pipe is gone; connect again"
_SELF = (sys.executable, "-m", "treadle.tools.pipe")


class PipeExecutor:
    """Runs commands and changes files where `command` leads.

    `command` starts `python -m treadle.tools.pipe` somewhere and joins our pipe to it, for
    example ``("ssh", "host", "python", "-m", "treadle.tools.pipe")``.
    """

    def __init__(self, server: Subprocess, pipe: MessagePipe) -> None:
        self._server, self._pipe = server, pipe
        self._waiting: dict[int, asyncio.Future[int | bytes | str | None]] = {}
        self._numbers = itertools.count()
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def connect(
        cls, command: Sequence[str] = _SELF, *, env: Mapping[str, str] | None = None
    ) -> Self:
        """Start `command` and connect to the server that it leads to."""
        (their_input, our_output), (our_input, their_output) = os.pipe(), os.pipe()
        try:
            server = await create_subprocess_exec(
                *command, stdin=their_input, stdout=their_output, env=env, start_new_session=True
            )
        except BaseException:
            os.close(our_output)
            os.close(our_input)
            raise
        finally:
            os.close(their_input)
            os.close(their_output)
        return cls(server, MessagePipe(Stream(our_input), Stream(our_output)))

    async def start(self, spec: ProcessSpec) -> PipedProcess:
        """Start a process there."""
        started = asyncio.ensure_future(self.request(Start(spec)))
        try:
            return PipedProcess(self, await asyncio.shield(started))
        except asyncio.CancelledError:
            with suppress(OSError):
                await self.request(Kill(await started))
            raise

    async def read(self, path: Path, *, bounds: Bounds, limit: int | None = None) -> bytes:
        """Read a file there."""
        data: bytes = await self.request(Read(path, bounds, limit))
        return data

    async def write(self, path: Path, data: bytes, *, bounds: Bounds) -> None:
        """Replace a file there."""
        await self.request(Write(path, data, bounds))

    async def patch(self, text: str, *, cwd: Path, bounds: Bounds) -> str:
        """Apply a patch there."""
        report: str = await self.request(Apply(text, cwd, bounds))
        return report

    async def close(self) -> None:
        """Kill everything there, and end the connection."""
        with suppress(OSError):
            await self.request(Close())
        self._pipe.close()
        await self._listener
        try:
            async with asyncio.timeout(_EXIT_SECONDS):
                await self._server.wait()
        except TimeoutError:
            self._server.kill()
            await self._server.wait()

    async def request(self, operation: Operation) -> Any:
        """Send an operation and return its reply.

        Raises what was raised there, or `ConnectionError`.
        """
        if self._listener.done():
            raise ConnectionError(_GONE)
        number = next(self._numbers)
        answer: asyncio.Future[int | bytes | str | None] = (
            asyncio.get_running_loop().create_future()
        )
        self._waiting[number] = answer
        try:
            await self._send(PipeRequest(number, operation))
            return await answer
        finally:
            answer.cancel()
            self._waiting.pop(number, None)

    async def _send(self, request: PipeRequest) -> None:
        try:
            await self._pipe.send(encode(request))
        except BrokenPipeError as error:
            raise ConnectionError(_GONE) from error

    async def _listen(self) -> None:
        try:
            while (message := await self._pipe.receive()) is not None:
                self._deliver(decode_reply(message))
        except (OSError, *UNREADABLE) as error:
            lost = ConnectionError(f"the other end of the pipe sent no valid message: {error}")
        else:
            lost = ConnectionError(_GONE)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(lost)

    def _deliver(self, reply: PipeReply) -> None:
        answer = self._waiting.get(reply.number)
        if answer is None or answer.done():
            return
        if reply.failure is not None:
            answer.set_exception(reply.failure.exception())
        else:
            answer.set_result(reply.value)


class PipedProcess:
    """A process at the far end."""

    def __init__(self, executor: PipeExecutor, number: int) -> None:
        self._executor, self._number = executor, number
        self._next: asyncio.Future[bytes] | None = None
        self._code: asyncio.Future[int] | None = None

    async def output(self) -> AsyncIterator[bytes]:
        """Read what it writes, until it ends."""
        while True:
            if self._next is None:
                self._next = asyncio.ensure_future(self._executor.request(Output(self._number)))
            # A reader that is cancelled must not lose what is already on its way.
            data = await asyncio.shield(self._next)
            self._next = None
            if not data:
                return
            yield data

    async def write(self, data: bytes) -> None:
        """Type into its terminal."""
        await self._executor.request(Type(self._number, data))

    async def wait(self) -> int:
        """Wait for its exit code."""
        if self._code is None:
            self._code = asyncio.ensure_future(self._executor.request(Wait(self._number)))
        return await asyncio.shield(self._code)

    async def take_refusals(self) -> tuple[str, ...]:
        """Take out what its network has refused since the last time."""
        lines: str = await self._executor.request(TakeRefusals(self._number))
        return tuple(lines.splitlines())

    async def kill(self) -> None:
        """Kill it and all that it started."""
        if self._code is None:
            self._code = asyncio.ensure_future(self._executor.request(Kill(self._number)))
            await asyncio.wait({self._code})
        else:
            # Without a connection the far end kills everything by itself.
            with suppress(ConnectionError):
                await self._executor.request(Kill(self._number))
