"""The far end: does what is asked over a pipe with an executor of its own.

Owns the processes started for the near end. Invariant: when the near end is gone,
for whatever reason, everything it started is ended.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from ...core.wire import UNREADABLE
from ..executor import Process, ToolExecutor
from .channel import Channel
from .messages import (
    Apply,
    Close,
    Kill,
    Operation,
    Output,
    Read,
    Reply,
    Start,
    Type,
    Wait,
    Write,
    decode_request,
    encode,
    failure_of,
)

__all__ = ["serve"]


async def serve(channel: Channel, executor: ToolExecutor) -> None:
    """Answer requests until the near end is gone, then end everything."""
    host = _Host(channel, executor)
    tasks: set[asyncio.Task[None]] = set()
    try:
        while (message := await channel.receive()) is not None:
            request = decode_request(message)
            task = asyncio.create_task(host.answer(request.number, request.operation))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    except (ConnectionError, *UNREADABLE):
        # Whoever is there does not speak our language.
        return
    finally:
        for task in tasks:
            task.cancel()
        await executor.close()
        channel.close()


@dataclass(slots=True)
class _Host:
    channel: Channel
    executor: ToolExecutor
    processes: dict[int, Process] = field(default_factory=dict)
    outputs: dict[int, AsyncIterator[bytes]] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def answer(self, number: int, operation: Operation) -> None:
        try:
            reply = Reply(number, await self._done(operation))
        except Exception as error:  # noqa: BLE001 - it is the near end's to handle
            reply = Reply(number, failure=failure_of(error))
        try:
            await self.channel.send(encode(reply))
        except BrokenPipeError:
            # Nobody is left to tell; `serve` notices by itself.
            return

    async def _done(self, operation: Operation) -> int | bytes | str | None:
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
                return await self._processed(operation)
        return None

    async def _processed(
        self, operation: Start | Output | Type | Wait | Kill
    ) -> int | bytes | None:
        match operation:
            case Start(spec):
                return self._hosted(await self.executor.start(spec))
            case Output(number):
                output = self.outputs.get(number)
                return b"" if output is None else await anext(output, b"")
            case Wait(number):
                return await self.processes[number].wait()
            case Type(number, data):
                await self._typed(number, data)
            case Kill(number):
                return await self._ended(number)
        return None

    async def _typed(self, number: int, data: bytes) -> None:
        if number not in self.processes:
            raise BrokenPipeError(errno.EPIPE, "the process has ended")
        await self.processes[number].write(data)

    def _hosted(self, process: Process) -> int:
        number = next(self.numbers)
        self.processes[number] = process
        self.outputs[number] = process.output()
        return number

    async def _ended(self, number: int) -> int | None:
        process = self.processes.pop(number, None)
        if process is None:
            return None
        await process.kill()
        self.outputs.pop(number)
        return await process.wait()
