from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp import Client, StdioServerParameters
from tests.cli.terminal import SCRIPT
from tests.fork_server import Process, run
from tests.mcp_server.scenes import NEW, OLD, Place, fields_of, run_ls, text_of
from treadle import Thread
from treadle.mcp_server.stdio_serving import LONGEST_LINE
from treadle.testing.script import Answer, Break

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def environ(place: Place) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(place.project),
        "SHELL": "/bin/bash",
        "TREADLE_HOME": str(place.home),
        "PYTHONWARNINGS": "error",
    }


def command(place: Place, *answers: Answer) -> list[str]:
    rights = ["--sandbox", "danger-full-access", "--approval", "never"]
    return [str(SCRIPT), "mcp", "serve", "--model", place.script(*answers), *rights]


class Server:
    """A real process, and the lines that go in and out of it."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._ids = 0

    def put(self, *lines: bytes) -> None:
        for line in lines:
            self.process.stdin.write(line + b"\n")

    def send(self, method: str, **params: Any) -> int:
        self._ids += 1
        request = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        self.put(json.dumps(request).encode())
        return self._ids

    def read(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert message["jsonrpc"] == "2.0"
        return message

    def answer(self, method: str, **params: Any) -> dict[str, Any]:
        sent = self.send(method, **params)
        while (message := self.read()).get("id") != sent:
            pass
        return message

    def greet(self) -> None:
        assert self.answer("initialize", **HELLO)["result"]["serverInfo"]["name"] == "treadle"
        self.put(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def end(self) -> tuple[int, bytes]:
        self.process.stdin.close()
        return self.process.wait(), self.process.stdout.read()


@contextmanager
def serving(place: Place, *answers: Answer) -> Iterator[Server]:
    with Process(command(place, *answers), cwd=place.project, env=environ(place)) as process:
        yield Server(process)


def test_the_output_is_the_protocol_and_nothing_else(tmp_path: Path) -> None:
    with serving(
        Place(tmp_path), run_ls("echo noise; echo more >&2"), Answer(text="Hi.")
    ) as server:
        server.greet()
        done = server.answer("tools/call", name="run", arguments={"prompt": "make noise"})
        assert done["result"]["content"] == [{"type": "text", "text": "Hi."}]
        assert server.end() == (0, b"")


def test_a_closed_input_ends_the_server_also_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place, Answer(text="Late.", stall=Break(events=1))) as server:
        server.greet()
        meta = {"progressToken": "p"}
        server.send("tools/call", name="run", arguments={"prompt": "slowly"}, _meta=meta)
        assert server.read()["method"] == "notifications/progress"
        assert server.end()[0] == 0
    assert asyncio.run(go_on(place)) == "Now."


def test_a_server_that_is_killed_leaves_a_thread_that_goes_on(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place, Answer(text="Late.", stall=Break(events=1))) as server:
        server.greet()
        meta = {"progressToken": "p"}
        server.send("tools/call", name="run", arguments={"prompt": "slowly"}, _meta=meta)
        assert server.read()["method"] == "notifications/progress"
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    assert asyncio.run(go_on(place)) == "Now."


async def go_on(place: Place) -> str:
    """Go on with the only thread, which says what came before."""
    async with place.client(Answer(text="Now.")) as client:
        (thread,) = fields_of(await client.call_tool("threads", {}))["threads"]
        done = await client.call_tool("reply", {"thread": thread["id"], "prompt": "and now?"})
        shown = fields_of(await client.call_tool("show", {"thread": thread["id"]}))
        assert shown["entries"][0]["text"].strip() == "slowly"
        return text_of(done)


def test_what_is_no_message_is_refused_and_the_next_is_served(tmp_path: Path) -> None:
    refused = {
        b"no json": -32700,
        b'{"jsonrpc":"1.0"}': -32700,
        b"[]": -32700,
        b"\xff\xfe": -32700,
        b"[" * 10_000: -32700,
        b"x" * (LONGEST_LINE + 1): -32600,
    }
    with serving(Place(tmp_path)) as server:
        server.put(b"", b"  ")
        for line, code in refused.items():
            server.put(line)
            answer = server.read()
            assert (answer["id"], answer["error"]["code"]) == (None, code), line[:40]
        server.greet()
        assert server.answer("no/such/method")["error"]["code"] == -32601
        assert server.answer("tools/call", name="nope")["error"]["code"] == -32602
        assert server.answer("tools/call", name="threads", arguments=[])["error"]
        assert server.answer("ping")["result"] == {}
        assert server.end() == (0, b"")


def test_a_flood_of_requests_is_answered_to_the_last(tmp_path: Path) -> None:
    with serving(Place(tmp_path)) as server:
        server.greet()
        sent = {server.send("tools/call", name="threads", arguments={}) for _ in range(500)}
        while sent:
            answer = server.read()
            sent.remove(answer["id"])
            assert "result" in answer or answer["error"]["code"] == -32000
        assert server.answer("ping")["result"] == {}
        assert server.end()[0] == 0


def test_cancelling_what_is_unknown_or_over_harms_nothing(tmp_path: Path) -> None:
    with serving(Place(tmp_path)) as server:
        server.greet()
        for stray in ("1", '"x"', "null", "[]", "{}"):
            server.put(
                b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}'
                % stray.encode()
            )
        assert server.answer("ping")["result"] == {}
        assert server.end() == (0, b"")


@pytest.mark.parametrize("era", [OLD, NEW])
async def test_the_official_client_starts_it_and_calls_it(tmp_path: Path, era: str) -> None:
    place = Place(tmp_path)
    program, *arguments = command(place, Answer(text="Hello."))
    started = StdioServerParameters(
        command=program, args=arguments, env=environ(place), cwd=place.project
    )
    async with Client(started, mode=era) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["run", "reply", "threads", "show", "recall_search", "recall_expand"]
        done = await client.call_tool("run", {"prompt": "greet"})
        assert text_of(done) == "Hello."


async def test_a_thread_that_a_person_writes_is_busy_for_the_server(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with Thread.open(model=place.script(), cwd=place.project, home=place.home) as thread:
        with serving(place, Answer(text="Done.")) as server:
            await asyncio.to_thread(server.greet)
            call = {"name": "reply", "arguments": {"thread": thread.id, "prompt": "me too"}}
            done = (await asyncio.to_thread(server.answer, "tools/call", **call))["result"]
            assert done["isError"]
            assert f"process {os.getpid()}" in done["content"][0]["text"]
            assert (await asyncio.to_thread(server.end))[0] == 0


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    place = Place(tmp_path)
    code = "import sys; sys.modules['mcp'] = None; from treadle.cli import main; sys.exit(main())"
    # Not the fork server: that has loaded the package already.
    started = [sys.executable, "-I", "-c", code, "mcp", "serve"]
    done = run(started, cwd=place.project, env=environ(place))
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"[mcp]" in done.stderr
    assert b"Traceback" not in done.stderr
