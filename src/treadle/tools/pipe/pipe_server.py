"""The server of the pipe: does what a client requests, with an executor of its own.

Owns the processes started for the client. Invariant: when the client is gone, for whatever
reason, everything it started is killed.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from ...core.wire import UNREADABLE
from ..executor import Process, ProcessSpec, ReportsRefusals, ToolExecutor
from .protocol import (
    Apply,
    Close,
    Hello,
    Kill,
    MessagePipe,
    Operation,
    Output,
    PipeReply,
    Read,
    Start,
    TakeRefusals,
    Type,
    Wait,
    Write,
    decode_request,
    encode,
    remote_error,
)

__all__ = ["serve"]

_MOST_KEPT = 256
"""Processes that are known although they have ended."""


async def serve(pipe: MessagePipe, executor: ToolExecutor, hello: Hello) -> None:
    """Answer requests until the client is gone, then kill everything."""
    server = _Server(pipe, executor)
    tasks: set[asyncio.Task[None]] = set()
    try:
        await pipe.send(encode(hello))
        while (message := await pipe.receive()) is not None:
            request = decode_request(message)
            task = asyncio.create_task(server.answer(request.number, request.operation))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            if isinstance(request.operation, Wait):
                server.waits.add(task)
                task.add_done_callback(server.waits.discard)
    except (ConnectionError, *UNREADABLE):
        # The client does not follow the protocol.
        return
    finally:
        for task in tasks:
            task.cancel()
        for started in server.processes.values():
            started.process.cancel()
        await executor.close()
        pipe.close()


class _Started:
    """A process that was asked for: perhaps not there yet, perhaps never."""

    def __init__(self, process: asyncio.Task[Process]) -> None:
        self.process = process
        self.is_over = False
        """All of its output has been read."""
        self._output: AsyncIterator[bytes] | None = None
        self._reading = asyncio.Lock()

    async def read(self) -> bytes:
        """Read some output; requests are answered in their order."""
        async with self._reading:
            if self._output is None:
                self._output = (await asyncio.shield(self.process)).output()
            data = await anext(self._output, b"")
            self.is_over = not data
            return data


@dataclass(slots=True)
class _Server:
    pipe: MessagePipe
    executor: ToolExecutor
    processes: dict[int, _Started] = field(default_factory=dict)
    waits: set[asyncio.Task[None]] = field(default_factory=set)
    """Answers that are due when a process ends."""

    async def answer(self, number: int, operation: Operation) -> None:
        try:
            reply = await self._execute(number, operation)
        except Exception as error:  # noqa: BLE001 - the client handles it
            reply = PipeReply(number, failure=remote_error(error))
        try:
            await self.pipe.send(encode(reply))
        except BrokenPipeError:
            # The client is gone; `serve` notices by itself.
            return

    async def _execute(self, number: int, operation: Operation) -> PipeReply:
        match operation:
            case Read(path, bounds, limit):
                data = await self.executor.read(path, bounds=bounds, limit=limit)
                return PipeReply(number, data=data)
            case Write(path, data, bounds):
                await self.executor.write(path, data, bounds=bounds)
            case Apply(text, cwd, bounds):
                report = await self.executor.patch(text, cwd=cwd, bounds=bounds)
                return PipeReply(number, text=report)
            case Close():
                await self.executor.close()
                # The client hangs up when it hears this; how its processes ended comes before.
                if self.waits:
                    await asyncio.wait(self.waits)
            case _:
                return await self._execute_on_process(number, operation)
        return PipeReply(number)

    async def _execute_on_process(
        self, number: int, operation: Start | Output | Type | Wait | Kill | TakeRefusals
    ) -> PipeReply:
        match operation:
            case Start(process, spec):
                if process in self.processes:
                    raise ValueError(f"there is a process {process} already")
                self._forget_oldest()
                starting = asyncio.create_task(_start(self.executor, spec))
                self.processes[process] = _Started(starting)
                await asyncio.shield(starting)
            case Output(process):
                started = self.processes.get(process)
                return PipeReply(number, data=b"" if started is None else await started.read())
            case Wait(process):
                return PipeReply(number, code=await (await self._process(process)).wait())
            case Type(process, data):
                if process not in self.processes:
                    raise BrokenPipeError(errno.EPIPE, "the process has ended")
                await (await self._process(process)).write(data)
            case Kill(process):
                return PipeReply(number, code=await self._kill(process))
            case TakeRefusals(process):
                return PipeReply(number, text=await self._take_refusals(process))
        return PipeReply(number)

    def _forget_oldest(self) -> None:
        """Forget processes that have ended, the oldest first, where there are many."""
        over = len(self.processes) - _MOST_KEPT
        ended = [number for number, each in self.processes.items() if each.is_over]
        for number in ended[: max(over, 0)]:
            del self.processes[number]

    async def _process(self, number: int) -> Process:
        return await asyncio.shield(self.processes[number].process)

    async def _take_refusals(self, number: int) -> str:
        process = await self._process(number) if number in self.processes else None
        taken = await process.take_refusals() if isinstance(process, ReportsRefusals) else ()
        return "\n".join(taken)

    async def _kill(self, number: int) -> int | None:
        started = self.processes.pop(number, None)
        if started is None:
            return None
        process = await asyncio.shield(started.process)
        await process.kill()
        return await process.wait()


async def _start(executor: ToolExecutor, spec: ProcessSpec) -> Process:
    return await executor.start(spec)
