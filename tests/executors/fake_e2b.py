"""A stand-in for E2B: its control plane and the daemon of a sandbox, over HTTP on loopback.

Written after E2B's public API and the Connect protocol with JSON. A sandbox is a directory,
and its processes are processes of this machine.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

KEY, TOKEN = "e2b_0123456789abcdef", "envd-token-0123456789"


class FakeE2B:
    """Serves both sides; `sandboxes` has the state of each by its id."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.sandboxes: dict[str, dict[str, Any]] = {}
        self.processes: dict[int, Process] = {}
        self.asked: list[str] = []
        self.port = 0

    @property
    def environ(self) -> dict[str, str]:
        url = f"http://127.0.0.1:{self.port}"
        return {"E2B_API_KEY": KEY, "E2B_API_URL": url, "E2B_SANDBOX_URL": url}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *rest = head.decode().split("\r\n")
                headers = {k.lower(): v for k, _, v in (r.partition(": ") for r in rest if r)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                method, path, _ = line.split()
                self.asked.append(f"{method} {path}")
                if path.startswith("/process.Process/"):
                    await self._daemon(path.rpartition("/")[2], headers, body, writer)
                else:
                    self._control(method, path, headers, body, writer)
                await writer.drain()
        writer.close()

    def _control(
        self, method: str, path: str, headers: dict[str, str], body: bytes, writer: Any
    ) -> None:
        asked = json.loads(body) if body else {}
        if headers.get("x-api-key") != KEY:
            return _answer(writer, 401, {"code": 401, "message": "invalid key"})
        parts = path.strip("/").removeprefix("v2/").split("/")
        if (method, parts) == ("POST", ["sandboxes"]):
            name = f"isb{len(self.sandboxes)}"
            self.sandboxes[name] = {**asked, "state": "running"}
            return _answer(writer, 201, self._told(name))
        name, verb = parts[1], parts[2] if len(parts) > 2 else ""
        if name not in self.sandboxes:
            return _answer(writer, 404, {"code": 404, "message": "sandbox not found"})
        match method, verb:
            case "POST", "connect":
                self.sandboxes[name]["state"] = "running"
                return _answer(writer, 200, self._told(name))
            case "POST", "pause":
                self.sandboxes[name]["state"] = "paused"
                return _answer(writer, 204, None)
            case "POST", "timeout":
                self.sandboxes[name]["timeout"] = asked["timeout"]
                return _answer(writer, 204, None)
            case "DELETE", "":
                del self.sandboxes[name]
                return _answer(writer, 204, None)
        return _answer(writer, 400, {"code": 400, "message": f"{method} {path}"})

    def _told(self, name: str) -> dict[str, Any]:
        told = {"templateID": "base", "sandboxID": name, "clientID": "c", "envdVersion": "0.4.0"}
        return {**told, "envdAccessToken": TOKEN, "domain": None}

    async def _daemon(
        self, verb: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        assert headers["connect-protocol-version"] == "1"
        name = headers["e2b-sandbox-id"]
        known = self.sandboxes.get(name, {"state": "gone"})
        if headers.get("x-access-token") != TOKEN or known["state"] != "running":
            return _answer(writer, 502, {"code": "unavailable", "message": "no such sandbox"})
        if verb == "Start":
            assert headers["content-type"] == "application/connect+json"
            assert body[0] == 0
            assert int.from_bytes(body[1:5], "big") == len(body) - 5
            return await self._start(json.loads(body[5:]), writer)
        asked = json.loads(body)
        process = self.processes[asked["process"]["pid"]]
        assert process.stdin is not None
        if verb == "SendInput":
            process.stdin.write(base64.b64decode(asked["input"]["stdin"]))
            with suppress(ConnectionError):
                await process.stdin.drain()
        else:
            assert verb == "CloseStdin"
            process.stdin.close()
        return _answer(writer, 200, {})

    async def _start(self, asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        assert asked["stdin"] is True
        config = asked["process"]
        process = await asyncio.create_subprocess_exec(
            *(config["cmd"], *config["args"]),
            cwd=config["cwd"],
            stdin=PIPE,
            stdout=PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(self.place)},
        )
        self.processes[process.pid] = process
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        _send(writer, 0, {"event": {"start": {"pid": process.pid}}})
        assert process.stdout is not None
        with suppress(ConnectionError):
            while data := await process.stdout.read(1 << 15):
                _send(writer, 0, {"event": {"data": {"stdout": base64.b64encode(data).decode()}}})
                await writer.drain()
        code = await process.wait()
        with suppress(ConnectionError):
            _send(writer, 0, {"event": {"end": {"exitCode": code, "exited": True}}})
            _send(writer, 2, {})
            writer.write(b"0\r\n\r\n")


def _send(writer: asyncio.StreamWriter, flags: int, message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    data = bytes([flags]) + len(body).to_bytes(4, "big") + body
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def _answer(writer: asyncio.StreamWriter, status: int, body: Any) -> None:
    data = b"" if body is None else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} x\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)


@asynccontextmanager
async def fake_e2b(place: Path) -> AsyncIterator[FakeE2B]:
    """Serve, and end all processes afterwards."""
    fake = FakeE2B(place)
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.port = server.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        server.close()
        for process in fake.processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()
