from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client

from mcp import Client, types
from tests.cli.terminal import SCRIPT
from tests.fork_server import Process, run
from tests.mcp_server.scenes import NEW, OLD, Place, accept, fields_of, run_ls, text_of
from tests.mcp_server.test_stdio import HELLO, environ
from treadle.testing.script import Answer, Break

PING = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
KINDS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


class Served(NamedTuple):
    """A server that listens, in a process of its own."""

    place: Place
    process: Process
    url: str
    token: str

    @property
    def port(self) -> int:
        port = urlsplit(self.url).port
        assert port is not None
        return port

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    def post(self, body: bytes | dict[str, Any], **headers: str) -> httpx2.Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {**KINDS, **self.bearer, **{k.replace("_", "-"): v for k, v in headers.items()}}
        return httpx2.post(self.url, content=data, headers=given, timeout=60)


@contextmanager
def listening(place: Place, *answers: Answer, asking: bool = False) -> Iterator[Served]:
    rights = ["--sandbox", "danger-full-access", "--approval", "untrusted" if asking else "never"]
    command = [str(SCRIPT), "mcp", "serve", "--http", "--json", "--model", place.script(*answers)]
    with Process([*command, *rights], cwd=place.project, env=environ(place)) as process:
        told = json.loads(process.stdout.readline())
        token = Path(told["token_in"]).read_text().strip()
        yield Served(place, process, told["url"], token)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests that only knock."""
    with listening(Place(tmp_path_factory.mktemp("served"))) as found:
        yield found


@pytest.mark.parametrize("era", [OLD, NEW])
async def test_a_client_with_the_token_runs_a_turn_and_answers_its_question(
    tmp_path: Path, era: str
) -> None:
    place = Place(tmp_path)
    with listening(place, run_ls(), Answer(text="Done."), asking=True) as served:
        async with (
            httpx2.AsyncClient(headers=served.bearer, timeout=60) as http,
            Client(
                streamable_http_client(served.url, http_client=http),
                mode=era,
                elicitation_callback=accept(decision="once"),
            ) as client,
        ):
            done = await client.call_tool("run", {"prompt": "do it"})
            assert text_of(done) == "Done."
            found = await client.call_tool("recall_search", {"query": "do it"})
            assert fields_of(found)["items"]
        assert (place.project / "made").exists()


def test_the_token_is_for_its_owner_only_and_stays_the_same(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with listening(place) as served:
        file = place.home / "mcp-token"
        assert file.stat().st_mode & 0o777 == 0o600
    with listening(place) as again:
        assert again.token == served.token


@pytest.mark.parametrize(
    "shown", ["", "Bearer", "Bearer wrong", "Basic {}", "{}", "Bearer {}x", "Bearer  {}"]
)
def test_who_has_no_token_is_refused(served: Served, shown: str) -> None:
    answer = served.post(PING, authorization=shown.format(served.token))
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_two_tokens_are_none(served: Served) -> None:
    headers = [*KINDS.items(), *served.bearer.items(), ("authorization", "Bearer other")]
    assert httpx2.post(served.url, json=PING, headers=headers).status_code == 401


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:1", "file://"],
)
def test_a_foreign_page_is_refused_also_with_the_token(served: Served, origin: str) -> None:
    assert served.post(PING, origin=origin).status_code == 403


def test_a_page_of_its_own_is_served(served: Served) -> None:
    assert served.post(PING, origin=f"http://localhost:{served.port}").status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{}", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{}", ""]
)
def test_a_name_that_was_bent_to_this_machine_is_refused(served: Served, host: str) -> None:
    assert served.post(PING, host=host.format(served.port)).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:{}", "localhost:{}", "LOCALHOST:{}"])
def test_its_own_names_are_served(served: Served, host: str) -> None:
    assert served.post(PING, host=host.format(served.port)).status_code == 200


def test_a_request_that_is_too_large_is_refused_and_the_next_is_served(served: Served) -> None:
    assert served.post(b"x" * (5 << 20)).status_code == 413

    def pieces() -> Iterator[bytes]:
        for _ in range(80):
            yield b"x" * (1 << 16)

    told = {**KINDS, **served.bearer}
    assert httpx2.post(served.url, content=pieces(), headers=told).status_code == 413
    assert served.post(PING).status_code == 200


def test_blanks_around_the_value_of_a_header_do_not_count(served: Served) -> None:
    about = {"protocolVersion": NEW, "clientCapabilities": {}}
    params = {
        "name": "threads",
        "arguments": {},
        "_meta": {f"io.modelcontextprotocol/{name}": value for name, value in about.items()},
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    routed = {"mcp-protocol-version": NEW, "mcp-method": "tools/call", "mcp-name": "threads \t "}
    # Other clients for HTTP do not send such a value.
    with closing(HTTPConnection("127.0.0.1", served.port)) as connection:
        told = {**KINDS, **served.bearer, **routed}
        connection.request("POST", "/mcp", json.dumps(call), told)
        answer = connection.getresponse()
        text = answer.read().decode()
    assert (answer.status, '"error"' in text) == (200, False), text


@pytest.mark.parametrize(
    ("body", "status"), [(b"", 400), (b"no json", 400), (b"[]", 400), (b"\xff", 400)]
)
def test_what_is_no_message_is_refused(served: Served, body: bytes, status: int) -> None:
    assert served.post(body).status_code == status


def test_other_paths_and_methods_have_nothing(served: Served) -> None:
    root = served.url.removesuffix("/mcp")
    assert httpx2.get(root, headers=served.bearer).status_code == 404
    assert httpx2.get(f"{root}/mcp/../etc", headers=served.bearer).status_code == 404
    assert httpx2.put(served.url, headers={**KINDS, **served.bearer}).status_code == 405


async def test_a_flood_of_requests_leaves_it_serving(served: Served) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    limits = httpx2.Limits(max_connections=400)
    given = {**KINDS, **served.bearer}
    async with httpx2.AsyncClient(headers=given, timeout=60, limits=limits) as http:

        async def knock() -> int:
            try:
                return (await http.post(served.url, json=message)).status_code
            except httpx2.TransportError:
                return 0

        answers = await asyncio.gather(*(knock() for _ in range(300)))
        assert 500 not in answers
    assert served.post(PING).status_code == 200


async def test_a_client_that_leaves_in_the_middle_interrupts_its_turn(tmp_path: Path) -> None:
    with listening(Place(tmp_path), Answer(text="Late.", stall=Break(events=1))) as served:
        meta = {
            "progressToken": "p",
            "io.modelcontextprotocol/protocolVersion": NEW,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": "run", "arguments": {"prompt": "slowly"}, "_meta": meta}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        routed = {"mcp-protocol-version": NEW, "mcp-method": "tools/call", "mcp-name": "run"}
        async with (
            httpx2.AsyncClient(headers={**KINDS, **served.bearer, **routed}) as http,
            http.stream("POST", served.url, json=call) as answer,
        ):
            async for line in answer.aiter_lines():
                if "notifications/progress" in line:
                    break
        # The thread can be written again as soon as the turn is durable.
        async with (
            httpx2.AsyncClient(headers=served.bearer, timeout=60) as http,
            Client(streamable_http_client(served.url, http_client=http), mode=NEW) as client,
        ):
            (thread,) = fields_of(await client.call_tool("threads", {}))["threads"]
            given = {"thread": thread["id"], "prompt": "go on", "model": "scripted:none"}
            while "is being written" in text_of(done := await client.call_tool("reply", given)):
                assert isinstance(done, types.CallToolResult)


def test_a_signal_ends_it_with_its_turns(tmp_path: Path) -> None:
    with listening(Place(tmp_path)) as served:
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait() in (0, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("arguments", "environment", "named"),
    [
        (["--host", "0.0.0.0"], {}, "--allow-host"),
        (["--host", "203.0.113.7", "--allow-host", "x:1"], {}, "--host"),
        ([], {"TREADLE_MCP_TOKEN": "short"}, "TREADLE_MCP_TOKEN"),
    ],
)
def test_it_does_not_start_where_anybody_could_call_it(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], named: str
) -> None:
    place = Place(tmp_path)
    command = [str(SCRIPT), "mcp", "serve", "--http", *arguments]
    done = run(command, cwd=place.project, env={**environ(place), **environment})
    assert (done.returncode, done.stdout, named in done.stderr.decode()) == (1, b"", True)
    assert done.stderr.count(b"\n") == 1
