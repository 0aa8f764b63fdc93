"""The real Codex: its app-server, asked over standard input and output as its clients do.

The trivial tool is a dynamic one that this client runs. `codex exec` itself is measured where
a whole process is: its cold start is taken without this driver.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.peers.commands import codex_settings
from codex_cli_bin import bundled_codex_path
from common import ANSWER, MODEL, OPENED, QUESTION, Job, Scenarios, drive, status, tick

SERVERS: list[AppServer] = []
HEARD = (b'"turn/completed"', b'"item/tool/call"')
"""What the app-server says by itself that matters here."""
TICK = {
    "type": "function",
    "name": "tick",
    "description": "Counts.",
    "inputSchema": {"type": "object", "properties": {"number": {"type": "integer"}}},
}


class AppServer:
    """A running app-server."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.numbers = count(1)
        self.answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.ended: dict[str, asyncio.Future[None]] = {}
        self.reading = asyncio.create_task(self._read())

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """A request and its answer."""
        number = next(self.numbers)
        answer = self.answers[number] = asyncio.get_running_loop().create_future()
        self._write({"id": number, "method": method, "params": params})
        return await answer

    def tell(self, method: str) -> None:
        """A notification."""
        self._write({"method": method})

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def close(self) -> None:
        """End it."""
        self.process.terminate()
        await self.process.wait()
        await self.reading

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            if not line.startswith(b'{"id"') and not any(name in line for name in HEARD):
                continue
            message = json.loads(line)
            if message.get("method") == "turn/completed":
                self.ended.pop(message["params"]["threadId"]).set_result(None)
            elif message.get("method") == "item/tool/call":
                text = str(tick(**message["params"]["arguments"]))
                told = {"contentItems": [{"type": "inputText", "text": text}], "success": True}
                self._write({"id": message["id"], "result": told})
            elif "error" in message:
                refused = RuntimeError(message["error"]["message"])
                self.answers.pop(message["id"]).set_exception(refused)
            elif "result" in message:
                self.answers.pop(message["id"]).set_result(message["result"])


class CodexThread:
    """A thread of the app-server."""

    def __init__(self, server: AppServer, thread: str) -> None:
        self.server, self.thread = server, thread

    async def turn(self, said: str) -> None:
        """A turn, until the server says that it is over."""
        ended = asyncio.get_running_loop().create_future()
        self.server.ended[self.thread] = ended
        given = [{"type": "text", "text": said}]
        await self.server.ask("turn/start", threadId=self.thread, input=given)
        await ended

    async def seed(self, turns: int) -> None:
        """Items of a past."""
        for number in range(turns):
            items = [
                message("user", "input_text", f"{QUESTION} ({number})."),
                message("assistant", "output_text", ANSWER),
            ]
            await self.server.ask("thread/inject_items", threadId=self.thread, items=items)


def message(role: str, kind: str, text: str) -> dict[str, Any]:
    """A message as the Responses API has it."""
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


async def app_server(job: Job, script: str) -> AppServer:
    """A server that is ready."""
    home = job.scratch / "codex"
    home.mkdir(exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        str(bundled_codex_path()),
        "app-server",
        *codex_settings(job.base(script)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "CODEX_HOME": str(home)},
        limit=1 << 26,
    )
    server = AppServer(process)
    client = {"name": "bench", "title": "Bench", "version": "0"}
    await server.ask("initialize", clientInfo=client, capabilities={"experimentalApi": True})
    server.tell("initialized")
    return server


@asynccontextmanager
async def opened(job: Job, script: str, name: str) -> AsyncIterator[CodexThread]:
    """A thread of the server of this job; only one of `resume` has a name of its own."""
    if not SERVERS:
        SERVERS.append(await app_server(job, script))
    server, project = SERVERS[0], job.scratch / "project"
    project.mkdir(exist_ok=True)
    if job.scenario == "resume" and "-" in name:
        started = await server.ask("thread/resume", threadId=name, excludeTurns=True)
    else:
        started = await server.ask(
            "thread/start", cwd=str(project), model=MODEL, dynamicTools=[TICK]
        )
    yield CodexThread(server, started["thread"]["id"])
    job.told["peak_kb"] = max(memory("VmHWM"), job.told.get("peak_kb", 0))


def memory(name: str) -> int:
    """Kilobytes of the app-server."""
    return status(name, str(SERVERS[0].process.pid))


def busy() -> int:
    """Nanoseconds that the app-server spent on a processor, in all of its threads."""
    tasks = Path(f"/proc/{SERVERS[0].process.pid}/task").glob("*/schedstat") if SERVERS else ()
    return sum(int(task.read_text().split()[0]) for task in tasks)


@dataclass(slots=True)
class CodexScenarios(Scenarios):
    """Threads are resumed by a server that has just been started."""

    async def resume(self, job: Job) -> None:
        async with opened(job, "text", "long") as conversation:
            await conversation.turn(QUESTION)
            await conversation.seed(job.sizes["past"])
        await SERVERS.pop().close()
        taken: list[tuple[str, int]] = []
        for _ in range(OPENED):
            for kind in ("new", "resumed"):
                SERVERS.append(await app_server(job, "text"))
                taken.append((kind, time.monotonic_ns()))
                async with opened(
                    job, "text", conversation.thread if kind == "resumed" else ""
                ) as again:
                    await again.turn(QUESTION)
                await SERVERS.pop().close()
        job.told["opened"] = taken

    async def closed(self) -> None:
        while SERVERS:
            await SERVERS.pop().close()


if __name__ == "__main__":
    drive(
        "openai-codex-cli-bin",
        CodexScenarios(opened, command="exec_command", memory=memory, processor=busy),
    )
