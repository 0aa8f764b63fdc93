"""The client of the pipe: an executor whose machine is at the other end.

Owns the connection and what waits for a reply. Invariants: a call that is cancelled leaves
nothing behind at the far end, and every call ends when the connection does; what the far end
says is checked, and no more of it is held than was asked for.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from ...core.redact import one_line
from ...core.wire import UNREADABLE
from ..executor import Bounds, ProcessSpec
from .archive import far_archive
from .channel import Channel, open_command
from .delivery import far_command, shell_line
from .protocol import (
    CHUNK,
    MAGIC,
    VERSION,
    Apply,
    Close,
    Hello,
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
    decode_hello,
    decode_reply,
    encode,
)

__all__ = ["ConnectionLost", "PipeExecutor", "PipedProcess"]

_CONNECT_SECONDS = 60.0
_LOGIN_TEXT = 1 << 16
"""Bytes that may come before the far end speaks, such as the greeting of a login."""


class ConnectionLost(ConnectionError):
    """The far end cannot be asked any more; what became of open calls is unknown."""

    def __init__(self, name: str, why: str) -> None:
        because = f" ({why})" if why else ""
        super().__init__(
            f"the connection to {name} was lost{because}; the outcome of what was running there "
            "is unknown: it was ended with the connection, and may have done a part of its work"
        )


class PipeExecutor:
    """Runs commands and changes files where a command leads.

    `connect` starts it. The far end needs a POSIX shell and Python 3.11 or newer; all else is
    sent over the pipe. `hello` is what it says of itself.
    """

    def __init__(self, channel: Channel, pipe: MessagePipe, hello: Hello, name: str) -> None:
        self.hello = hello
        self.name = name
        self._channel, self._pipe = channel, pipe
        self._waiting: dict[int, asyncio.Future[PipeReply]] = {}
        self._numbers = itertools.count()
        self._processes = itertools.count()
        self._listener = asyncio.create_task(self._listen())
        self._lost: ConnectionError | None = None

    @classmethod
    async def connect(
        cls,
        command: Sequence[str] = (),
        *,
        line: bool = False,
        env: Mapping[str, str] | None = None,
        name: str = "",
    ) -> Self:
        """Connect to where `command` leads, such as ``("docker", "exec", "-i", "box")``.

        The words that start the far end are added to it, or, with `line`, added as one word
        for a shell, as ssh wants it. Without a command it is this machine. Raises
        `ConnectionError` with what the command said.
        """
        far = far_command()
        argv = (*command, shell_line(far)) if line else (*command, *far)
        shown = name or " ".join(command) or "a process of this machine"
        try:
            channel: Channel = await open_command(argv, env=env)
        except OSError as error:
            raise ConnectionError(f"cannot reach {shown}: {argv[0]!r}: {error.strerror}") from error
        return await cls.over(channel, name=shown)

    @classmethod
    async def over(cls, channel: Channel, *, name: str) -> Self:
        """Connect over a channel to a shell command that was started as `far_command` says."""
        pipe = MessagePipe(channel, channel)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                hello = await _greet(pipe)
        except TimeoutError as error:
            await channel.end()
            raise ConnectionError(
                f"cannot reach {name}: nothing answered in {_CONNECT_SECONDS:.0f} seconds"
            ) from error
        except (OSError, *UNREADABLE) as error:
            channel.close()
            why = await channel.complaint() or one_line(str(error)) or "it ended at once"
            await channel.end()
            raise ConnectionError(f"cannot reach {name}: {why}") from error
        except BaseException:
            await channel.end()
            raise
        return cls(channel, pipe, hello, name)

    @property
    def is_connected(self) -> bool:
        """Return whether requests can be sent."""
        return self._lost is None and not self._listener.done()

    async def start(self, spec: ProcessSpec) -> PipedProcess:
        """Start a process there."""
        process = PipedProcess(self, next(self._processes), spec)
        try:
            await process.wait_for_start()
        except asyncio.CancelledError:
            with suppress(OSError, RuntimeError):
                await self.request(Kill(process.number))
            process.forget()
            raise
        except BaseException:
            process.forget()
            raise
        return process

    async def read(self, path: Path, *, bounds: Bounds, limit: int | None = None) -> bytes:
        """Read a file there."""
        reply = await self.request(Read(path, bounds, limit))
        data = reply.data or b""
        if limit is not None and len(data) > limit:
            self._refuse(f"it sent {len(data)} bytes of a file where {limit} were asked for")
        return data

    async def write(self, path: Path, data: bytes, *, bounds: Bounds) -> None:
        """Replace a file there."""
        await self.request(Write(path, data, bounds))

    async def patch(self, text: str, *, cwd: Path, bounds: Bounds) -> str:
        """Apply a patch there."""
        return (await self.request(Apply(text, cwd, bounds))).text or ""

    async def close(self) -> None:
        """Kill everything there, and end the connection."""
        with suppress(OSError):
            await self.request(Close())
        self._pipe.close()
        await self._listener
        await self._channel.end()

    async def request(self, operation: Operation) -> PipeReply:
        """Send an operation and return its reply.

        Raises what was raised there, or `ConnectionLost`.
        """
        if not self.is_connected:
            raise self._lost or ConnectionLost(self.name, "")
        number = next(self._numbers)
        answer: asyncio.Future[PipeReply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self._send(PipeRequest(number, operation))
            return await answer
        finally:
            answer.cancel()
            self._waiting.pop(number, None)

    def output_of(self, reply: PipeReply) -> bytes:
        """Return the output in a reply; one with more than was asked for ends the connection."""
        data = reply.data or b""
        if len(data) > CHUNK:
            self._refuse(f"it sent {len(data)} bytes of output at once")
        return data

    async def _send(self, request: PipeRequest) -> None:
        try:
            await self._pipe.send(encode(request))
        except BrokenPipeError as error:
            # Who listens knows why.
            await asyncio.wait({self._listener})
            raise self._lost or ConnectionLost(self.name, "") from error

    async def _listen(self) -> None:
        why = ""
        try:
            while (message := await self._pipe.receive()) is not None:
                self._deliver(decode_reply(message))
        except (OSError, *UNREADABLE) as error:
            why = f"it sent no valid message: {one_line(str(error))}"
            self._pipe.close()
        self._fail(ConnectionLost(self.name, why or await self._channel.complaint()))

    def _deliver(self, reply: PipeReply) -> None:
        answer = self._waiting.get(reply.number)
        if answer is None or answer.done():
            # One that was given up. A reply to what nobody asked has nobody who hears it.
            return
        if reply.failure is not None:
            answer.set_exception(reply.failure.exception())
        else:
            answer.set_result(reply)

    def _refuse(self, why: str) -> None:
        """End the connection to a far end that does not follow the protocol."""
        lost = ConnectionLost(self.name, why)
        self._pipe.close()
        self._fail(lost)
        raise lost

    def _fail(self, lost: ConnectionLost) -> None:
        self._lost = self._lost or lost
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._lost)


async def _greet(pipe: MessagePipe) -> Hello:
    """Send the far end there and wait until it speaks."""
    # At the same time: a login that says much before it reads must not wait for us.
    sending = asyncio.create_task(pipe.send_raw(far_archive()))
    try:
        await pipe.skip_to(MAGIC, _LOGIN_TEXT)
        await sending
    finally:
        sending.cancel()
        await asyncio.wait({sending})
        _note(sending)
    message = await pipe.receive()
    if message is None:
        raise ConnectionError("it ended at once")
    hello = decode_hello(message)
    if hello.version != VERSION:
        raise ConnectionError(f"it speaks version {hello.version} of the protocol, not {VERSION}")
    return hello


class PipedProcess:
    """A process at the far end.

    Its first output and its end are asked for together with its start, so that a short command
    takes one way there and back.
    """

    def __init__(self, executor: PipeExecutor, number: int, spec: ProcessSpec) -> None:
        self.number = number
        self._executor = executor
        ask = executor.request
        self._start = _ask(ask(Start(number, spec)))
        self._next: asyncio.Future[PipeReply] | None = _ask(ask(Output(number)))
        self._end = _ask(ask(Wait(number)))

    async def wait_for_start(self) -> None:
        """Wait until it runs. Raises what was raised there."""
        await asyncio.shield(self._start)

    def forget(self) -> None:
        """Ask no more of it."""
        for asked in (self._start, self._next, self._end):
            if asked is not None:
                asked.cancel()

    async def output(self) -> AsyncIterator[bytes]:
        """Read what it writes, until it ends."""
        while True:
            if self._next is None:
                self._next = _ask(self._executor.request(Output(self.number)))
            # A reader that is cancelled must not lose what is already on its way.
            reply = await asyncio.shield(self._next)
            data = self._executor.output_of(reply)
            if not data:
                return
            self._next = None
            yield data

    async def write(self, data: bytes) -> None:
        """Type into its terminal."""
        await self._executor.request(Type(self.number, data))

    async def wait(self) -> int:
        """Wait for its exit code."""
        reply = await asyncio.shield(self._end)
        return -1 if reply.code is None else reply.code

    async def take_refusals(self) -> tuple[str, ...]:
        """Take out what its network has refused since the last time."""
        reply = await self._executor.request(TakeRefusals(self.number))
        return tuple((reply.text or "").splitlines())

    async def kill(self) -> None:
        """Kill it and all that it started."""
        # Without a connection the far end kills everything by itself.
        with suppress(ConnectionError):
            await self._executor.request(Kill(self.number))
        await asyncio.wait({self._end})


def _ask(request: Coroutine[Any, Any, PipeReply]) -> asyncio.Future[PipeReply]:
    """Ask now; whoever waits later hears the answer, and nobody has to."""
    asked = asyncio.ensure_future(request)
    asked.add_done_callback(_note)
    return asked


def _note(asked: asyncio.Future[Any]) -> None:
    """Take note of how it ended, so that nobody is told that nobody did."""
    if not asked.cancelled():
        asked.exception()
