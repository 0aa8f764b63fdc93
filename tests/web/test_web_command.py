from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from starlette.routing import Route

from tests.cli.terminal import SCRIPT
from tests.fork_server import Process, run
from treadle import Thread
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer
from treadle.web.api import reading_routes
from treadle.web.control import acting_routes
from treadle.web.inspected_home import ShownHome
from treadle.web.inspector import Inspector

from .served import footprint


def test_the_server_prints_a_link_serves_and_ends_with_ctrl_c(shown_home: Path) -> None:
    before = footprint(shown_home)
    command = [str(SCRIPT), "--home", str(shown_home), "web", "--no-open", "--json"]
    with Process(command, cwd=shown_home.parent, stderr=subprocess.PIPE) as process:
        told = json.loads(process.stdout.readline())
        assert told["control"] is False
        parts = urlsplit(told["link"])
        assert parts.hostname == "127.0.0.1"
        assert not parts.query
        token = parts.fragment.removeprefix("token=")
        bearer = {"authorization": f"Bearer {token}"}
        assert len(httpx2.get(f"{told['url']}api/threads", headers=bearer).json()["threads"]) > 5
        assert "<script" in httpx2.get(told["url"]).text
        # Who else runs here cannot read the token from the list of processes.
        assert token not in Path(f"/proc/{process.pid}/cmdline").read_text()
        with httpx2.stream("GET", f"{told['url']}api/events", headers=bearer) as listening:
            lines = listening.iter_lines()
            assert next(lines) == "retry: 2000"
            os.kill(process.pid, signal.SIGINT)
            # A page that listens is told that it is over; it is not broken off.
            assert not any("event" in line for line in lines)
        assert process.wait() == 130
        assert process.stdout.read() == b""
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert footprint(shown_home) == before


def test_a_port_that_is_taken_and_an_open_address_are_told(tmp_path: Path) -> None:
    command = [str(SCRIPT), "--home", str(tmp_path / "home"), "web", "--no-open"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run([*command, "--port", str(taken.getsockname()[1])], cwd=tmp_path)
    assert done.returncode == 1
    assert b"cannot be listened on" in done.stderr
    done = run([*command, "--host", "0.0.0.0"], cwd=tmp_path)
    assert done.returncode == 1
    assert b"--allow-host" in done.stderr
    assert not (tmp_path / "home").exists()


def test_the_help_says_what_the_page_may_do(tmp_path: Path) -> None:
    done = run([str(SCRIPT), "web", "--help"], cwd=tmp_path)
    text = " ".join(done.stdout.decode().split())
    for words in ("--control", "Nothing is written", "valid while the server runs", "ssh -L"):
        assert words in text
    done = run([str(SCRIPT), "web", "export", "--help"], cwd=tmp_path)
    assert "It needs no server and no network" in " ".join(done.stdout.decode().split())


def test_the_page_of_the_api_names_every_route(tmp_path: Path) -> None:
    inspector = Inspector(ShownHome(tmp_path))
    routes = [*reading_routes(inspector), *acting_routes(inspector, None)]
    served = {
        f"{min(route.methods or (), key=len)} {re.sub(r':[a-z]+}', '}', route.path)}"
        for route in routes
        if isinstance(route, Route)
    }
    page = (Path(__file__).parents[2] / "docs" / "inspector-api.md").read_text()
    told = set(re.findall(r"^\| `((?:GET|POST) /[^`]*)`", page, re.MULTILINE))
    assert told == {*served, "POST /api/session"}


async def test_threads_in_a_database_are_shown_and_followed(
    postgres_url: str, tmp_path: Path
) -> None:
    model = ScriptedModel([Answer(text="One."), Answer(text="Two.")])
    home = tmp_path / "home"
    command = [str(SCRIPT), "--home", str(home), "--store", postgres_url, "web", "--no-open"]
    async with Thread.open(model=model, cwd=tmp_path, home=home, store=postgres_url) as thread:
        await _drain(thread.run("First."))
        with Process([*command, "--json"], cwd=tmp_path) as process:
            told = json.loads(await asyncio.to_thread(process.stdout.readline))
            bearer = {"authorization": f"Bearer {told['link'].partition('token=')[2]}"}
            async with httpx2.AsyncClient(
                base_url=told["url"], headers=bearer, timeout=60
            ) as client:
                base = f"/api/threads/{thread.id}"
                for view in ("", "/entries", "/turns", "/ledger", "/ledger/overview", "/epochs"):
                    assert (await client.get(base + view)).status_code == 200, view
                for view in ("/composition/series", "/summaries", "/state", "/agents", "/plan"):
                    assert (await client.get(base + view)).status_code == 200, view
                assert (await client.get(f"{base}/requests/1/verify")).json()["same"]
                assert (await client.get("/api/recall?q=first")).json()["hits"]
                async with client.stream("GET", f"/api/events?thread={thread.id}") as stream:
                    turn = asyncio.create_task(_drain(thread.run("Second.")))
                    async for line in stream.aiter_lines():
                        if line == "event: entries":
                            break
                    await turn
                assert (await client.get(base)).json()["turns"] == 2
            os.kill(process.pid, signal.SIGTERM)
            await asyncio.to_thread(process.wait)
    await model.close()


async def _drain(events: AsyncIterator[object]) -> None:
    async for _ in events:
        pass
