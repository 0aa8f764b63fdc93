"""The server of the pipe: does what a client requests, with an executor of its own.

Owns the processes started for the client. Invariant: when the client is gone, for whatever
reason, everything it started is killed.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from ...core.wire import UNREADABLE
from ..executor import Process, ReportsRefusals, ToolExecutor
from .protocol import (
    Apply,
    Close,
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


async def serve(pipe: MessagePipe, executor: ToolExecutor) -> None:
    """Answer requests until the client is gone, then kill everything."""
    server = _Server(pipe, executor)
    tasks: set[asyncio.Task[None]] = set()
    try:
        while (message := await pipe.receive()) is not None:
            request = decode_request(message)
            task = asyncio.create_task(server.answer(request.number, request.operation))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    except (ConnectionError, *UNREADABLE):
        # The client does not follow the protocol.
        return
    finally:
        for task in tasks:
            task.cancel()
        await executor.close()
        pipe.close()


@dataclass(slots=True)
class _Server:
    pipe: MessagePipe
    executor: ToolExecutor
    processes: dict[int, Process] = field(default_factory=dict)
    outputs: dict[int, AsyncIterator[bytes]] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def answer(self, number: int, operation: Operation) -> None:
        try:
            reply = PipeReply(number, await self._execute(operation))
        except Exception as error:  # noqa: BLE001 - the client handles it
            reply = PipeReply(number, failure=remote_error(error))
        try:
            await self.pipe.send(encode(reply))
        except BrokenPipeError:
            # The client is gone; `serve` notices by itself.
            return

    async def _execute(self, operation: Operation) -> int | bytes | str | None:
        match operation:
            case Read(path, bounds, limit):
                return await self.executor.read(path, bounds=bounds, limit=limit)
            case Write(path, data, bounds):
                await self.executor.write(path, data, bounds=bounds)
            case Apply(text, cwd, bounds):
                return await self.executor.patch(text, cwd=cwd, bounds=bounds)
            case Close():
                await self.executor.close()
            case _:
                return await self._execute_on_process(operation)
        return None

    async def _execute_on_process(
        self, operation: Start | Output | Type | Wait | Kill | TakeRefusals
    ) -> int | bytes | str | None:
        match operation:
            case Start(spec):
                return self._add(await self.executor.start(spec))
            case Output(number):
                output = self.outputs.get(number)
                return b"" if output is None else await anext(output, b"")
            case Wait(number):
                return await self.processes[number].wait()
            case Type(number, data):
                await self._type(number, data)
            case Kill(number):
                return await self._kill(number)
            case TakeRefusals(number):
                return await self._take_refusals(number)
        return None

    async def _type(self, number: int, data: bytes) -> None:
        if number not in self.processes:
            raise BrokenPipeError(errno.EPIPE, "the process has ended")
        await self.processes[number].write(data)

    async def _take_refusals(self, number: int) -> str:
        process = self.processes.get(number)
        taken = await process.take_refusals() if isinstance(process, ReportsRefusals) else ()
        return "\n".join(taken)

    def _add(self, process: Process) -> int:
        number = next(self.numbers)
        self.processes[number] = process
        self.outputs[number] = process.output()
        return number

    async def _kill(self, number: int) -> int | None:
        process = self.processes.pop(number, None)
        if process is None:
            return None
        await process.kill()
        self.outputs.pop(number)
        return await process.wait()
