from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcp import MCPError
from treadle.config.mcp_settings import McpServerSettings
from treadle.core.errors import ConfigError
from treadle.core.specs import spec_name
from treadle.mcp.mcp_errors import ServerUnavailable
from treadle.mcp.server_settings import McpServer
from treadle.mcp.servers import McpServers

from .scenes import OwnServer, servers_of, until


def text_of(answer: Any) -> str:
    return str(answer.content[0].text)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def until_gone(*pids: int) -> None:
    await until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize(("modern", "version"), [(False, "2025-11-25"), (True, "2026-07-28")])
async def test_both_eras_of_the_protocol_are_spoken(tmp_path, modern, version):
    server = OwnServer(tmp_path, tools=["echo", "add"], modern=modern, instructions="Be kind.")
    async with servers_of(tmp_path, server) as servers:
        assert await servers.prepare() == ()
        snapshot = servers.snapshots["echo"]
        assert snapshot.version == version
        assert snapshot.instructions == "Be kind."
        assert [tool.name for tool in snapshot.tools] == ["add", "echo"]
        client = await servers.client("echo")
        assert text_of(await client.call_tool("echo", {"text": "hi"})) == "hi"


async def test_a_server_gets_few_variables_and_those_that_are_named(tmp_path):
    server = OwnServer(tmp_path, tools=["environ"])
    given = {"PATH": os.environ["PATH"], "API_TOKEN": "t0p", "WANTED": "w", "SECRET_KEY": "k"}
    settings = server.server(env={"TOKEN": "${API_TOKEN}-${MISSING:-none}"}, env_vars=("WANTED",))
    async with servers_of(tmp_path, settings, environ=given) as servers:
        client = await servers.client("echo")
        seen = json.loads(text_of(await client.call_tool("environ", {})))
    assert seen["TOKEN"] == "t0p-none"
    assert seen["WANTED"] == "w"
    assert not {"API_TOKEN", "SECRET_KEY"} & seen.keys()
    assert seen["PYTHONSAFEPATH"] == "1"


@pytest.mark.parametrize(("cwd", "where"), [(None, "user"), (".", "project"), ("in", "project/in")])
async def test_a_server_starts_in_a_project_only_where_it_is_told_to(tmp_path, cwd, where):
    for place in ("user", "project/in"):
        (tmp_path / place).mkdir(parents=True)
    server = OwnServer(tmp_path, tools=["pid"]).server(cwd=cwd)
    given = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "user")}
    async with McpServers([server], cwd=tmp_path / "project", environ=given) as servers:
        client = await servers.client("echo")
        pid = text_of(await client.call_tool("pid", {}))
        assert Path(f"/proc/{pid}/cwd").readlink() == tmp_path / where


async def test_a_variable_that_is_not_set_is_named(tmp_path):
    server = OwnServer(tmp_path).server(env={"TOKEN": "${NOWHERE_SET}"})
    async with servers_of(tmp_path, server, environ={}) as servers:
        with pytest.raises(ServerUnavailable, match="NOWHERE_SET"):
            await servers.client("echo")


async def test_one_that_ends_in_a_call_is_started_again_for_the_next(tmp_path):
    server = OwnServer(tmp_path, tools=["die", "pid"])
    async with servers_of(tmp_path, server) as servers:
        client = await servers.client("echo")
        before = int(text_of(await client.call_tool("pid", {})))
        with pytest.raises(MCPError, match="closed"):
            await client.call_tool("die", {})
        await until_gone(before)
        await until(lambda: servers.connection("echo").state != "ready")
        client = await servers.client("echo")
        assert int(text_of(await client.call_tool("pid", {}))) != before


async def test_one_that_does_not_start_says_why_and_is_tried_again(tmp_path):
    server = OwnServer(tmp_path, dead=True)
    async with servers_of(tmp_path, server) as servers:
        (problem,) = await servers.prepare()
        assert problem == (
            "the MCP server 'echo' is not available: it ended with exit code 4: no licence; "
            "it is tried again in 0.05 seconds"
        )
        server.change(dead=False)
        await until(lambda: servers.connection("echo").state == "ready")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("no-such-program", "'no-such-program' is not on the search path"),
        ("/no/such/program", "'/no/such/program' is no program that can be started"),
        ("/etc", "'/etc' is no program that can be started"),
    ],
)
async def test_a_command_that_is_not_there_is_named(tmp_path, command, why):
    named = OwnServer(tmp_path).server()
    lost = msgspec.structs.replace(named.settings, command=command, args=())
    async with servers_of(tmp_path, msgspec.structs.replace(named, settings=lost)) as servers:
        with pytest.raises(ServerUnavailable, match=why):
            await servers.client("echo")


async def test_a_slow_server_is_given_up_at_its_limit(tmp_path):
    server = OwnServer(tmp_path, start_seconds=600).server(start_timeout=0.5)
    async with servers_of(tmp_path, server) as servers:
        (problem,) = await servers.prepare()
    assert "did not start within 0.5 seconds" in problem


async def test_a_required_server_that_does_not_start_is_an_error(tmp_path):
    server = OwnServer(tmp_path, dead=True).server(required=True)
    async with servers_of(tmp_path, server) as servers:
        with pytest.raises(ConfigError, match=r"no licence.*required = false"):
            await servers.prepare()


async def test_what_was_seen_once_is_known_without_the_server(tmp_path):
    server = OwnServer(tmp_path, tools=["echo", "add"])
    async with servers_of(tmp_path, server) as servers:
        await servers.prepare()
        seen = servers.snapshots["echo"]
    server.change(dead=True)
    async with servers_of(tmp_path, server) as servers:
        assert await servers.prepare() == ()
        assert servers.snapshots["echo"] == seen
        assert servers.connection("echo").state == "idle"
    another = server.server(env={"A": "b"})
    async with servers_of(tmp_path, another) as servers:
        assert servers.snapshots == {}, "other settings are another server"


async def test_a_list_that_changes_is_heard_of(tmp_path):
    server = OwnServer(tmp_path, tools=["changes"])
    async with servers_of(tmp_path, server) as servers:
        await servers.prepare()
        server.change(tools=["changes", "new"])
        client = await servers.client("echo")
        await client.call_tool("changes", {})
        await until(lambda: len(servers.snapshots["echo"].tools) == 2)


KILLED = """
import asyncio, os, sys
from pathlib import Path
from treadle.config.mcp_settings import McpServerSettings
from treadle.mcp.servers import McpServers
from treadle.mcp.server_settings import McpServer

async def main():
    script = "trap '' TERM HUP PIPE; sleep 600 & echo $$ $! >&2; exec 0<&-; wait"
    script = script.replace(">&2", "> " + sys.argv[1])
    own = McpServerSettings(command="/bin/sh", args=("-c", script))
    async with McpServers([McpServer(name="stubborn", settings=own)], cwd=Path("/")) as servers:
        servers.start()
        await asyncio.sleep(600)

asyncio.run(main())
"""


def test_servers_and_what_they_started_end_when_we_are_killed(tmp_path):
    noted = tmp_path / "pids"
    ours = subprocess.Popen([sys.executable, "-c", KILLED, str(noted)])
    try:
        for _ in range(3000):
            if noted.exists() and len(noted.read_text().split()) == 2:
                break
            asyncio.run(asyncio.sleep(0.02))
        pids = [int(each) for each in noted.read_text().split()]
        assert all(map(is_alive, pids))
    finally:
        ours.send_signal(signal.SIGKILL)
        ours.wait()
    asyncio.run(until_gone(*pids))


async def test_closing_ends_what_a_server_started(tmp_path):
    server = OwnServer(tmp_path, tools=["pid"])
    async with servers_of(tmp_path, server) as servers:
        client = await servers.client("echo")
        pid = int(text_of(await client.call_tool("pid", {})))
        assert is_alive(pid)
    assert not is_alive(pid)


@pytest.mark.parametrize("kind", ["prompts", "resources"])
async def test_one_that_cannot_list_the_rest_still_has_its_tools(tmp_path, kind):
    own = OwnServer(tmp_path, capabilities={kind: {}}, **{kind: "none of them"})
    async with servers_of(tmp_path, own) as servers:
        (notice,) = await servers.prepare()
        assert notice.startswith(f"the MCP server 'echo': its {kind} cannot be listed: ")
        assert [spec_name(tool.spec) for tool in servers.offer().direct] == ["mcp__echo__echo"]


async def test_a_list_that_fails_is_told_at_once_and_asked_for_again(tmp_path):
    own = OwnServer(tmp_path, list_error=True)
    async with servers_of(tmp_path, own) as servers:
        (notice,) = await servers.prepare()
        assert notice.endswith("is not available: its tools cannot be listed: not now")
        own.change(list_error=False)
        await until(lambda: "echo" in servers.snapshots)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Error: Cannot find module '/x'\n    at load (a:1)\n\nNode.js v24.19.0", "'/x'"),
        ("Traceback:\n  raise ValueError\nValueError: no key\n", "ValueError: no key"),
        (
            "npm error code E404\nnpm error 404 Not Found: x\nnpm error A log of this run is in y",
            "npm error 404 Not Found: x",
        ),
    ],
)
async def test_of_all_that_a_server_says_as_it_ends_the_reason_is_told(tmp_path, said, told):
    settings = McpServerSettings(command="sh", args=("-c", 'echo "$0" >&2; exit 1', said))
    server = McpServer(name="ends", settings=settings)
    async with servers_of(tmp_path, server) as servers:
        with pytest.raises(ServerUnavailable) as raised:
            await servers.client("ends")
    assert raised.value.reason.partition("; it is tried")[0].endswith(told)


async def test_a_server_that_has_said_nothing_yet_is_not_waited_for_at_the_end(tmp_path):
    begun, late = tmp_path / "begun", tmp_path / "late"
    slow = f"touch {begun}; cat >/dev/null; sleep 0.3; touch {late}"
    settings = McpServerSettings(command="sh", args=("-c", slow))
    async with servers_of(tmp_path, McpServer(name="slow", settings=settings)) as servers:
        servers.start()
        await until(begun.exists)
    assert not late.exists()
