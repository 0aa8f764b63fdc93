from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from treadle.core.errors import ConfigError
from treadle.web.api_answers import answers
from treadle.web.gate import POLICY
from treadle.web.inspected_home import ShownHome
from treadle.web.inspector import Inspector
from treadle.web.inspector_server import WebPlace, WebServer
from treadle.web.static_files import read_page

from .served import Web, serving

ACTS = {"x-treadle": "1", "content-type": "application/json"}


async def raw(web: Web, head: str, body: str = "") -> tuple[int, str]:
    """Send bytes as they are; return the status and the whole answer, 0 where it was cut off."""
    reader, writer = await asyncio.open_connection("127.0.0.1", web.server.port)
    try:
        writer.write(f"{head}\r\nConnection: close\r\n\r\n{body}".encode())
        await writer.drain()
        answer = (await reader.read()).decode(errors="replace")
    except ConnectionError:
        return 0, ""  # it was refused before all of it was read
    finally:
        writer.close()
    return int(answer.split(" ", 2)[1]), answer


async def test_only_the_names_of_this_machine_are_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as web:
        port, token = web.server.port, web.server.keys.token
        bearer = f"Authorization: Bearer {token}"
        for host, status in (
            (f"127.0.0.1:{port}", 200),
            (f"localhost:{port}", 200),
            (f"LOCALHOST:{port}", 200),
            (f"[::1]:{port}", 200),
            # A name of a stranger that leads to this machine, which a browser would follow.
            (f"rebound.example:{port}", 421),
            (f"127.0.0.1.nip.io:{port}", 421),
            (f"localhost.evil.example:{port}", 421),
            ("127.0.0.1", 421),
            (f"127.0.0.1:{port + 1}", 421),
            (f"0.0.0.0:{port}", 421),
            ("", 421),
        ):
            head = f"GET /api/server HTTP/1.1\r\nHost: {host}\r\n{bearer}"
            assert (await raw(web, head))[0] == status, host
        twice = f"GET /api/server HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil\r\n{bearer}"
        assert (await raw(web, twice))[0] in {400, 421}
        none = f"GET /api/server HTTP/1.1\r\n{bearer}"
        assert (await raw(web, none))[0] in {400, 421}


async def test_pages_of_other_origins_read_and_do_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as web:
        own = f"http://127.0.0.1:{web.server.port}"
        for origin, status in (
            (own, 200),
            (f"http://localhost:{web.server.port}", 200),
            (f"https://127.0.0.1:{web.server.port}", 403),
            ("http://127.0.0.1:1", 403),
            ("https://evil.example", 403),
            ("null", 403),
        ):
            answer = await web.client.get("/api/server", headers={"origin": origin})
            assert answer.status_code == status, origin
            assert "access-control-allow-origin" not in answer.headers
        asked = await web.client.request("OPTIONS", "/api/threads", headers={"origin": own})
        assert asked.status_code == 405
        path = "/api/threads/thr_x/turns"
        for headers, status in (
            ({}, 415),
            ({"content-type": "application/json"}, 403),
            ({"content-type": "text/plain", "x-treadle": "1"}, 415),
            ({**ACTS, "sec-fetch-site": "cross-site"}, 403),
            ({**ACTS, "sec-fetch-site": "same-site"}, 403),
            ({**ACTS, "sec-fetch-site": "none"}, 403),
            ({**ACTS, "origin": "https://evil.example"}, 403),
        ):
            answer = await web.client.post(path, content=b"{}", headers=headers)
            assert answer.status_code == status, headers
            told = answer.text
            assert "no_control" not in told, "the gate answers before any route"
        allowed = await web.client.post(
            path, content=b"{}", headers={**ACTS, "sec-fetch-site": "same-origin"}
        )
        assert allowed.json()["error"]["code"] == "no_control"


async def test_without_the_token_the_api_says_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as web, httpx2.AsyncClient(base_url=web.server.url) as stranger:
        keys = web.server.keys
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": f"Basic {keys.token}"},
            {"authorization": f"Bearer {keys.session}"},
            {"cookie": f"{keys.cookie}=wrong"},
            {"cookie": f"treadle-1={keys.session}"},
            {"cookie": f"{keys.cookie}={keys.token}"},
            {"cookie": f"{keys.cookie}={keys.session}; {keys.cookie}=wrong"},
        ):
            for path in ("/api/server", "/api/threads", "/api/events", "/api/nothing"):
                answer = await stranger.get(path, headers=headers)
                assert answer.status_code == 401, headers
                assert "treadle web" in answer.json()["error"]["message"]
        head = f"GET /api/server HTTP/1.1\r\nHost: 127.0.0.1:{web.server.port}"
        assert (await raw(web, f"{head}\r\nAuthorization: Bearer \u00fcber"))[0] == 401
        # A token in an address would stand in logs and histories; it opens nothing.
        assert (await stranger.get(f"/api/server?token={keys.token}")).status_code == 401


async def test_the_token_of_the_link_is_traded_for_a_strict_cookie(tmp_path: Path) -> None:
    async with serving(tmp_path) as web, httpx2.AsyncClient(base_url=web.server.url) as browser:
        keys = web.server.keys
        assert web.server.link.partition("#")[2] == f"token={keys.token}"
        wrong = await browser.post("/api/session", json={"token": "wrong"})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (403, "wrong_token")
        for body in (b"", b"[]", b'{"token": 3}', b"\xff"):
            headers = {"content-type": "application/json"}
            answer = await browser.post("/api/session", content=body, headers=headers)
            assert answer.status_code == 400
        assert (await browser.get("/api/session")).status_code == 405
        given = await browser.post("/api/session", json={"token": keys.token})
        assert given.status_code == 204
        cookie = given.headers["set-cookie"]
        assert cookie.startswith(f"treadle-{web.server.port}=")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
        assert keys.token not in cookie
        assert (await browser.get("/api/server")).status_code == 200


async def test_every_answer_forbids_what_a_page_should_not_do(tmp_path: Path) -> None:
    async with serving(tmp_path) as web:
        for path in ("/", "/page/main.js", "/api/server", "/api/none", "/nowhere"):
            headers = (await web.client.get(path)).headers
            assert headers["content-security-policy"] == POLICY
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cross-origin-opener-policy"] == "same-origin"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert headers["x-frame-options"] == "DENY"
            assert "server" not in headers
        assert "unsafe" not in POLICY
        assert (await web.client.get("/api/server")).headers["cache-control"] == "no-store"
        page = await web.client.get("/page/main.js")
        again = await web.client.get(
            "/page/main.js", headers={"if-none-match": page.headers["etag"]}
        )
        assert again.status_code == 304


async def test_no_path_and_no_link_leads_out_of_the_page(tmp_path: Path) -> None:
    async with serving(tmp_path) as web:
        for path in (
            "/page/../gate.py",
            "/page/%2e%2e/gate.py",
            "/page/..%2fgate.py",
            "/page//etc/passwd",
            "/page/main.js/../../gate.py",
            "/page/%00",
            "/page/",
        ):
            head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{web.server.port}"
            assert (await raw(web, head))[0] == 404, path
    page = tmp_path / "page"
    await asyncio.to_thread(page.mkdir)
    await asyncio.to_thread((page / "own.js").write_text, "1")
    await asyncio.to_thread((page / "secret.key").write_text, "no")
    await asyncio.to_thread((page / "link.js").symlink_to, "/etc/passwd")
    assert set(await asyncio.to_thread(read_page, page)) == {"own.js"}


async def test_large_and_broken_requests_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as web:
        host = f"Host: 127.0.0.1:{web.server.port}\r\nAuthorization: Bearer {web.server.keys.token}"
        acts = "Content-Type: application/json\r\nX-Treadle: 1"
        head = f"POST /api/threads HTTP/1.1\r\n{host}\r\n{acts}\r\nContent-Length: 3000000"
        assert (await raw(web, head, "x" * 3_000_000))[0] in {0, 403}
        login = f"POST /api/session HTTP/1.1\r\n{host}\r\n{acts}\r\nContent-Length: 5000"
        assert (await raw(web, login, "x" * 5_000))[0] in {0, 413}
        assert (await raw(web, f"BREW /api/server HTTP/1.1\r\n{host}"))[0] in {400, 405}
        assert (await raw(web, f"GET /{'x' * 100_000} HTTP/1.1\r\n{host}"))[0] in {400, 404, 414}
        assert (await web.client.get("/api/server")).status_code == 200


async def test_an_answer_that_takes_too_long_is_given_up() -> None:
    async def never(request: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError(request)

    app = Starlette(routes=[Route("/api/slow", answers(never, seconds=0.01))])
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://t") as client:
        answer = await client.get("/api/slow")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "too_slow")


async def test_another_address_needs_names_and_loopback_is_all_that_listens(
    tmp_path: Path,
) -> None:
    inspector = Inspector(ShownHome(tmp_path))
    with pytest.raises(ConfigError, match="--allow-host"):
        WebServer(inspector, WebPlace(host="0.0.0.0"))
    async with serving(tmp_path) as web:
        told = await asyncio.to_thread(socket.gethostbyname, "localhost")
        assert told.startswith("127.")
        with pytest.raises(ConfigError, match="cannot be listened on"):
            await asyncio.to_thread(WebServer, inspector, WebPlace(port=web.server.port))
    await inspector.close()


async def test_a_named_host_may_call_and_only_over_its_own_origin(tmp_path: Path) -> None:
    inspector = Inspector(ShownHome(tmp_path))
    place = WebPlace(hosts=("agents.example:443",))
    server = await asyncio.to_thread(WebServer, inspector, place)
    task = asyncio.create_task(server.serve())
    bearer = {"authorization": f"Bearer {server.keys.token}"}
    async with httpx2.AsyncClient(base_url=server.url, headers=bearer) as client:
        for host, origin, status in (
            ("agents.example:443", "https://agents.example:443", 200),
            ("agents.example:443", "https://evil.example", 403),
            ("agents.example", "https://agents.example:443", 421),
        ):
            answer = await client.get("/api/server", headers={"host": host, "origin": origin})
            assert answer.status_code == status, (host, origin)
    server.stop()
    await task
