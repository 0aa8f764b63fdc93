"""Crashes: a provider and workers in processes of their own, and an audit with sqlite3 alone.

Owns what is written down beside Treadle: requests as the provider got them, items as the host
was told of them, effects as the world saw them. Invariant: each is one line in one write, so
that a killed process leaves whole lines.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attack.ground import Ground
from attack.liar import call, item, message
from attack.processes import fork
from treadle.core.errors import TreadleError
from treadle.harness.events import ItemCompleted, TurnCompleted
from treadle.harness.loop import LoopHarness
from treadle.models.providers import ProviderConfig
from treadle.models.retry import Backoff
from treadle.tools.contract import Tool
from treadle.tools.decorator import tool

__all__ = ["Scene", "audit", "kill_workers", "stage"]


@dataclass(slots=True)
class Scene:
    """A provider that is up, and files in which everybody writes down what happens."""

    ground: Ground
    engine: str
    port: int = 0

    def file(self, name: str) -> Path:
        """Return the file of some record."""
        return self.ground.top / name

    def note(self, name: str, **facts: Any) -> None:
        """Append a line to a record."""
        descriptor = os.open(self.file(name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, json.dumps(facts).encode() + b"\n")
        os.close(descriptor)

    def notes(self, name: str) -> list[dict[str, Any]]:
        """Return the lines of a record."""
        file = self.file(name)
        found = []
        for line in file.read_bytes().splitlines() if file.exists() else ():
            with suppress(ValueError):
                found.append(json.loads(line))
        return found

    def tool(self) -> Tool:
        """Return a tool whose calls can be counted in the world."""

        @tool
        async def act(what: str) -> str:
            """Acts, and takes a moment before and behind it."""
            await asyncio.sleep(0.01)
            self.note("effects", what=what)
            await asyncio.sleep(0.01)
            return f"done {what}"

        return act

    async def work(self, *, turns: int | None = None) -> str:
        """Run turns on one thread, until the end of the world; return how the last one ended."""
        config = ProviderConfig(
            api="responses",
            base_url=f"http://127.0.0.1:{self.port}/v1",
            key_required=False,
            retries=0,
        )
        names = self.notes("threads")
        status = ""
        async with self.ground.open(
            "mine:m",
            names[0]["id"] if names else None,
            providers={"mine": config},
            tools=(self.tool(),),
            engine=self.engine,
            sandbox="read-only",
            harness=LoopHarness(backoff=Backoff(retries=0)),
        ) as thread:
            if not names:
                self.note("threads", id=thread.id)
            for number in itertools.count():
                if number == turns:
                    break
                turn = f"{os.getpid()}-{number}"
                async for event in thread.run(f"please do {turn}", turn_id=turn):
                    match event:
                        case ItemCompleted(seq=seq, item=body):
                            self.note("items", seq=seq, digest=_digest(bytes(body)))
                        case TurnCompleted(status=status):
                            self.note("ends", turn=turn, status=status)
        return status


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


@contextmanager
def stage(ground: Ground, engine: str) -> Iterator[Scene]:
    """Start a provider in a process of its own; end it with the block."""
    scene = Scene(ground, engine)
    reader, writer = os.pipe()
    pid = fork(lambda: asyncio.run(_provide(scene, writer)))
    os.close(writer)
    scene.port = int(os.read(reader, 100))
    os.close(reader)
    try:
        yield scene
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


async def _provide(scene: Scene, ready: int) -> None:
    """Answer every question with a call, and every result with words."""
    numbers = itertools.count(1)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lengths = [
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length")
                ]
                body = await reader.readexactly(lengths[0])
                scene.note("requests", size=len(body))
                writer.write(_answer(json.loads(body), next(numbers)))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, limit=1 << 26)
    os.write(ready, str(server.sockets[0].getsockname()[1]).encode())
    await server.serve_forever()


def _answer(body: dict[str, Any], number: int) -> bytes:
    newest = body["input"][-1]
    if newest.get("role") == "user" and "tools" in body:
        arguments = json.dumps({"what": f"c{number}"})
        return item(call(f"c{number}", id=f"fc_{number}", arguments=arguments))
    return item(message(f"word{number} " + "words " * 200, id=f"msg_{number}"))


def kill_workers(scene: Scene, kills: int) -> None:
    """Start a worker and kill it at some moment, again and again; then let one work in peace."""
    chance = random.Random(f"{scene.engine}")

    def work() -> None:
        with suppress(TreadleError):
            asyncio.run(scene.work())

    for _ in range(kills):
        pid = fork(work)
        time.sleep(chance.uniform(0.1, 0.7))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def audit(scene: Scene) -> list[str]:
    """Compare the log with what was written down beside it; return what is wrong."""
    log = scene.ground.home / "log.db"
    with closing(sqlite3.connect(f"file:{log}?mode=ro", uri=True)) as database:
        (whole,) = database.execute("PRAGMA integrity_check").fetchone()
        rows = database.execute(
            "SELECT e.id & 4294967295, e.kind, coalesce(e.body, b.data) FROM entries e"
            " LEFT JOIN blobs b ON b.number = e.blob ORDER BY e.id"
        ).fetchall()
        states = dict(database.execute("SELECT turn, state FROM turns").fetchall())
    bodies = {seq: bytes(body) for seq, _, body in rows}
    items = {seq: json.loads(body) for seq, kind, body in rows if kind == "item"}
    return [
        *([] if whole == "ok" else [f"the log is damaged: {whole}"]),
        *([] if list(bodies) == list(range(1, len(bodies) + 1)) else ["there is a gap"]),
        *_audit_items(scene, bodies),
        *_audit_calls(scene, items),
        *_audit_turns(scene, states),
        *_audit_requests(scene, [json.loads(body) for _, kind, body in rows if kind == "request"]),
    ]


def _audit_items(scene: Scene, bodies: dict[int, bytes]) -> Iterator[str]:
    for each in scene.notes("items"):
        body = bodies.get(each["seq"])
        if body is None:
            yield f"item {each['seq']} was acknowledged and is lost"
        elif _digest(body) != each["digest"]:
            yield f"item {each['seq']} was acknowledged and is another"


def _audit_calls(scene: Scene, items: dict[int, dict[str, Any]]) -> Iterator[str]:
    kinds = {"function_call": Counter[str](), "function_call_output": Counter[str]()}
    for each in items.values():
        if each.get("type") in kinds:
            kinds[each["type"]][each["call_id"]] += 1
    calls, results = kinds["function_call"], kinds["function_call_output"]
    for name, count in (calls + results).items():
        if calls[name] != 1 or results[name] != 1:
            yield f"call {name} stands {calls[name]} times, with {results[name]} results ({count})"
    for what, count in Counter(each["what"] for each in scene.notes("effects")).items():
        if count > 1:
            yield f"effect {what} happened {count} times"
        if what not in calls:
            yield f"effect {what} belongs to no call of the log"


def _audit_turns(scene: Scene, states: dict[str, str]) -> Iterator[str]:
    for each in scene.notes("ends"):
        if each["turn"] not in states:
            yield f"turn {each['turn']} was acknowledged and is lost"
        elif (each["status"], states[each["turn"]]) not in _SAME:
            yield f"turn {each['turn']} ended as {each['status']} and is {states[each['turn']]}"
    for turn, state in states.items():
        if state == "admitted":
            yield f"turn {turn} is open for ever"


_SAME = {("completed", "completed"), ("failed", "failed"), ("interrupted", "aborted")}


def _audit_requests(scene: Scene, noted: list[dict[str, Any]]) -> Iterator[str]:
    got = Counter(each["size"] for each in scene.notes("requests"))
    missing = got - Counter(each["size"] for each in noted)
    if missing:
        yield f"{missing.total()} of {got.total()} requests that the provider got are in no log"
