"""The real program: `treadle acp` as editors start it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from acp.helpers import (
    embedded_text_resource,
    image_block,
    resource_block,
    resource_link_block,
    text_block,
)
from acp.schema import EnvVariable, McpServerStdio

from acp import PROTOCOL_VERSION, spawn_agent_process
from tests.acp.scenes import Editor, Place, run_command, until
from tests.cli.terminal import SCRIPT
from tests.fork_server import Process, run
from treadle.testing.script import Answer, Call

if TYPE_CHECKING:
    from acp import Client

ECHO = Path(__file__).parents[1] / "mcp/echo_server.py"

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42"
    "mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def environ(place: Place) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(place.path),
        "SHELL": "/bin/bash",
        "TREADLE_HOME": str(place.home),
        "PYTHONWARNINGS": "error",
    }


def command(place: Place, *answers: Answer) -> list[str]:
    rights = ["--sandbox", "danger-full-access", "--approval", "never"]
    return [str(SCRIPT), "acp", "--model", place.script(*answers), *rights]


class Lines:
    """A process, and the lines that go in and out of it."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.told: list[dict[str, Any]] = []

    def put(self, *lines: bytes) -> None:
        for line in lines:
            self.process.stdin.write(line + b"\n")

    def send(self, number: int, method: str, **params: Any) -> None:
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.put(json.dumps(request).encode())

    def read(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert message["jsonrpc"] == "2.0"
        self.told.append(message)
        return message

    def answer(self, number: int, method: str, **params: Any) -> dict[str, Any]:
        self.send(number, method, **params)
        return self.wait_for(number)

    def wait_for(self, number: int) -> dict[str, Any]:
        while (message := self.read()).get("id") != number or "method" in message:
            pass
        return message

    def open(self, place: Place) -> str:
        self.answer(0, "initialize", protocolVersion=1)
        opened = self.answer(1, "session/new", cwd=str(place.project), mcpServers=[])
        return str(opened["result"]["sessionId"])


@contextmanager
def serving(place: Place, *answers: Answer) -> Iterator[Lines]:
    with Process(command(place, *answers), cwd=place.project, env=environ(place)) as process:
        yield Lines(process)


def say(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


async def test_the_official_client_drives_the_program(tmp_path: Path) -> None:
    place, editor = Place(tmp_path), Editor()
    argv = command(place, run_command("echo out"), Answer(text="done"))
    async with spawn_agent_process(cast("Client", editor), *argv, env=environ(place)) as (
        client,
        process,
    ):
        await client.initialize(PROTOCOL_VERSION)
        session = await client.new_session(str(place.project))
        done = await client.prompt(session.session_id, [text_block("go")])
        assert (done.stop_reason, editor.text) == ("end_turn", "done")
    assert process.returncode == 0


def test_the_output_is_the_protocol_and_nothing_else(tmp_path: Path) -> None:
    with serving(Place(tmp_path), run_command("echo noise; echo more >&2"), Answer(text="x")) as it:
        session = it.open(Place(tmp_path))
        assert it.answer(2, "session/prompt", sessionId=session, prompt=say("go"))["result"]
        it.put(b"", b"no json", b"[1]", b'{"jsonrpc":"2.0","id":9,"method":"no/such","params":{}}')
        refused = [it.read()["error"]["code"] for _ in range(3)]
        assert sorted(refused) == [-32700, -32700, -32601]
        assert it.answer(3, "session/list")["result"]["sessions"][0]["sessionId"] == session
        it.process.stdin.close()
        assert (it.process.wait(), it.process.stdout.read()) == (0, b"")


def test_a_client_that_dies_in_a_turn_leaves_a_thread_that_loads(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place, run_command("sleep 60"), Answer(text="x")) as it:
        session = it.open(place)
        it.send(2, "session/prompt", sessionId=session, prompt=say("go"))
        while it.read().get("params", {}).get("update", {}).get("sessionUpdate") != "tool_call":
            pass
        it.process.stdin.close()
        assert it.process.wait() == 0
    with serving(place, Answer(text="Here again.")) as it:
        it.answer(0, "initialize", protocolVersion=1)
        loaded = it.answer(
            1, "session/load", cwd=str(place.project), sessionId=session, mcpServers=[]
        )
        assert "result" in loaded
        kinds = [m["params"]["update"]["sessionUpdate"] for m in it.told if "params" in m]
        assert kinds[:3] == ["user_message_chunk", "tool_call", "tool_call_update"]
        assert it.answer(2, "session/prompt", sessionId=session, prompt=say("go on"))["result"]


def test_a_killed_agent_leaves_a_thread_that_loads(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place, run_command("sleep 60"), Answer(text="x")) as it:
        session = it.open(place)
        it.send(2, "session/prompt", sessionId=session, prompt=say("go"))
        while it.read().get("params", {}).get("update", {}).get("sessionUpdate") != "tool_call":
            pass
        it.process.send_signal(signal.SIGKILL)
        it.process.wait()
    with serving(place, Answer(text="Here again.")) as it:
        it.answer(0, "initialize", protocolVersion=1)
        it.answer(1, "session/resume", cwd=str(place.project), sessionId=session, mcpServers=[])
        done = it.answer(2, "session/prompt", sessionId=session, prompt=say("go on"))
        assert done["result"]["stopReason"] == "end_turn"


def test_a_prompt_is_cancelled_by_its_request_too(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place, run_command("sleep 60"), Answer(text="x")) as it:
        session = it.open(place)
        it.send(2, "session/prompt", sessionId=session, prompt=say("go"))
        while it.read().get("params", {}).get("update", {}).get("sessionUpdate") != "tool_call":
            pass
        it.put(b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}')
        assert it.wait_for(2)["result"]["stopReason"] == "cancelled"


def test_a_deleted_session_is_gone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with serving(place, Answer(text="x")) as it:
        session = it.open(place)
        it.answer(2, "session/prompt", sessionId=session, prompt=say("go"))
        assert it.answer(3, "session/delete", sessionId=session)["result"] == {}
        assert it.answer(4, "session/list")["result"]["sessions"] == []
        gone = it.answer(5, "session/delete", sessionId=session)
        assert gone["error"]["code"] == -32002


def test_replay_tells_what_show_prints(tmp_path: Path) -> None:
    place = Place(tmp_path)
    script = (
        run_command("echo said; exit 3", reasoning="I look.", text="Wait."),
        Answer(text="It failed: 3."),
    )
    with serving(place, *script) as it:
        session = it.open(place)
        it.answer(2, "session/prompt", sessionId=session, prompt=say("run it"))
    shown = run([str(SCRIPT), "show", session], cwd=place.project, env=environ(place))
    with serving(place, Answer(text="x")) as it:
        it.answer(0, "initialize", protocolVersion=1)
        it.answer(1, "session/load", cwd=str(place.project), sessionId=session, mcpServers=[])
        told = [m["params"]["update"] for m in it.told if m.get("method") == "session/update"]
    # Lines of `show` are texts of updates, and each update stands in it.
    printed = "".join(shown.stdout.decode().split())
    texts = []
    for update in told:
        match update["sessionUpdate"]:
            case "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk":
                texts.append(update["content"]["text"])
            case "tool_call":
                texts.append(json.dumps(update["rawInput"], separators=(",", ":")))
            case "tool_call_update":
                texts.append(update["content"][-1]["content"]["text"])
    at = 0
    for text in texts:
        at = printed.index("".join(text.split()), at)
    headings = [line for line in shown.stdout.decode().split("\n") if line[:1].strip()]
    assert len([line for line in headings if " · " in line]) == len(texts)


def test_a_terminal_login_stores_a_key(tmp_path: Path) -> None:
    place = Place(tmp_path)
    stored = run(
        [str(SCRIPT), "acp", "auth", "add", "openai"],
        input=b"sk-planted-000000000000000000000000\n",
        cwd=place.project,
        env=environ(place),
    )
    assert stored.returncode == 0, stored.stderr
    with Process([str(SCRIPT), "acp", "--model", "openai:gpt-5.5"], cwd=place.project,
                 env=environ(place)) as process:  # fmt: skip
        it = Lines(process)
        can = {"auth": {"terminal": True}}
        told = it.answer(0, "initialize", protocolVersion=1, clientCapabilities=can)["result"]
        methods = {each["id"]: each for each in told["authMethods"]}
        assert methods["terminal"]["args"] == ["auth", "add", "openai"]
        assert methods["environment-key"]["vars"] == [{"name": "OPENAI_API_KEY"}]
        # As the registry asks before it takes an agent, and as older clients do.
        older_can = {"terminal": True, "_meta": {"terminal-auth": True}}
        told = it.answer(1, "initialize", protocolVersion=1, clientCapabilities=older_can)["result"]
        (method,) = [each for each in told["authMethods"] if each.get("type") == "terminal"]
        older = method["_meta"]["terminal-auth"]
        assert (Path(older["command"]).stem[:6], older["args"][-3:]) == (
            "python", ["auth", "add", "openai"],
        )  # fmt: skip


@pytest.mark.parametrize("words", [["so"], ["auth", "list"]])
def test_other_words_are_wrong_usage(tmp_path: Path, words: list[str]) -> None:
    place = Place(tmp_path)
    done = run([str(SCRIPT), "acp", *words], cwd=place.project, env=environ(place))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"takes no words" in done.stderr


async def test_servers_of_the_client_bring_tools(tmp_path: Path) -> None:
    place = Place(tmp_path)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"tools": ["echo"]}))
    server = McpServerStdio(
        name="the ide",
        command=sys.executable,
        args=[str(ECHO), str(plan)],
        env=[EnvVariable(name="IDE", value="1")],
    )
    call = Answer(calls=(Call(name="mcp__the_ide__echo", arguments={"text": "from the ide"}),))
    async with place.connect(call, Answer(text="ok")) as (client, editor):
        session = await client.new_session(str(place.project), mcp_servers=[server])
        await client.prompt(session.session_id, [text_block("go")])
    told = editor.of("tool_call_update")[-1]
    assert (told.status, told.content[-1].content.text) == ("completed", "from the ide")


async def test_a_form_of_a_server_reaches_the_user_of_the_editor(tmp_path: Path) -> None:
    place = Place(tmp_path)
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    asked = {"mode": "form", "message": "Introduce yourself", "requestedSchema": schema}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"tools": ["elicit"], "elicit": asked}))
    server = McpServerStdio(name="ide", command=sys.executable, args=[str(ECHO), str(plan)], env=[])
    call = Answer(calls=(Call(name="mcp__ide__elicit", arguments={}),))
    editor = Editor(fills_in={"name": "Ann"})
    async with place.connect(call, Answer(text="ok"), editor=editor) as (client, _):
        session = await client.new_session(str(place.project), mcp_servers=[server])
        await client.prompt(session.session_id, [text_block("go")])
    ((message, _),) = editor.forms
    assert "The MCP server 'ide' asks: Introduce yourself" in message
    told = editor.of("tool_call_update")[-1].content[-1].content.text
    assert json.loads(told) == {"action": "accept", "content": {"name": "Ann"}}


async def test_images_files_and_embedded_texts_reach_the_model(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.project / "notes.txt").write_text("read me")
    said = [
        text_block("look at these"),
        image_block(PIXEL, "image/png"),
        resource_link_block("notes.txt", (place.project / "notes.txt").as_uri()),
        resource_link_block("issue", "https://example.org/1"),
        resource_block(embedded_text_resource("file:///elsewhere/a.py", "print(1)")),
    ]
    async with place.connect(Answer(text="seen")) as (client, editor):
        session = await client.new_session(str(place.project))
        await client.prompt(session.session_id, said)
        await client.load_session(str(place.project), session.session_id)
    heard = editor.of("user_message_chunk")
    images = [each.content.data for each in heard if each.content.type == "image"]
    assert [base64.b64decode(each)[:4] for each in images] == [b"\x89PNG"]
    texts = "\n".join(each.content.text for each in heard if each.content.type == "text")
    assert "look at these" in texts
    assert "read me" in texts
    assert "[issue](https://example.org/1)" in texts
    assert "print(1)" in texts


async def test_a_running_turn_goes_on_when_a_setting_is_changed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    script = (run_command("sleep 0.3; echo on"), Answer(text="One."))
    async with place.connect(*script) as (client, editor):
        session = await client.new_session(str(place.project))
        prompt = asyncio.ensure_future(client.prompt(session.session_id, [text_block("go")]))
        await until(lambda: editor.of("tool_call") or None)
        changed = await client.set_config_option("engine", session.session_id, "lossless")
        values = {each.id: each.current_value for each in changed.config_options}
        assert values["engine"] == "lossless"
        assert (await prompt).stop_reason == "end_turn"
