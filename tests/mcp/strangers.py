"""Servers that nobody here wrote, as their users start them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.node import find_node, npm_packages
from treadle.config.mcp_settings import McpServerSettings
from treadle.mcp.server_settings import McpServer

__all__ = ["STRANGERS", "Stranger", "page", "processes_with"]

_NPM = (
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
)
_MARK = "TREADLE_TEST_PLACE"


class Stranger(Struct, frozen=True):
    """A server, one of its tools, and what that says."""

    name: str
    tool: str
    says: str

    def server(self, place: Path) -> McpServer:
        """Return it as a server of a configuration; its processes can be found by the place."""
        command, *arguments = _COMMANDS[self.name](place)
        settings = McpServerSettings(
            command=command,
            args=tuple(arguments),
            env={_MARK: str(place)},
            approval="approve",
            start_timeout=90.0,
        )
        return McpServer(name=self.name, settings=settings)

    def arguments(self, place: Path, url: str) -> dict[str, Any]:
        """Return the arguments of the call."""
        known: dict[str, dict[str, Any]] = {
            "everything": {"message": "who is there?"},
            "fetch": {"url": url},
            "filesystem": {"path": str(place / "files/note.txt")},
            "git": {"repo_path": str(place / "repository"), "max_count": 1},
            "time": {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        }
        return known[self.name]


STRANGERS = (
    Stranger("everything", "echo", "who is there?"),
    Stranger("fetch", "fetch", "A page of the loom"),
    Stranger("filesystem", "read_text_file", "the note says treadle"),
    Stranger("git", "git_log", "weave the first cloth"),
    Stranger("time", "convert_time", "21:00"),
)


@asynccontextmanager
async def page() -> AsyncIterator[str]:
    """A page on this machine; yield its address."""
    body = b"A page of the loom\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def processes_with(place: Path) -> Iterator[int]:
    """Yield the processes of the servers of a place."""
    mark = f"{_MARK}={place}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environ.read_bytes().split(b"\0"):
                yield int(environ.parent.name)
        except OSError:
            continue


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _node(name: str, *arguments: str) -> tuple[str, ...]:
    program = npm_packages(_NPM) / f"@modelcontextprotocol/server-{name}/dist/index.js"
    return (str(find_node()), str(program), *arguments)


def _files(place: Path) -> tuple[str, ...]:
    directory = place / "files"
    directory.mkdir(exist_ok=True)
    (directory / "note.txt").write_text("the note says treadle\n")
    return _node("filesystem", str(directory))


def _repository(place: Path) -> tuple[str, ...]:
    directory = place / "repository"
    if not directory.exists():
        commit = ("commit", "-q", "--allow-empty", "-m", "weave the first cloth")
        who = ("-c", "user.name=Weaver", "-c", "user.email=weaver@example.org")
        subprocess.run(["git", "init", "-q", directory], check=True)
        subprocess.run(["git", "-C", directory, *who, *commit], check=True)
    return (_program("mcp-server-git"), "--repository", str(directory))


_COMMANDS: dict[str, Callable[[Path], tuple[str, ...]]] = {
    "everything": lambda _: _node("everything", "stdio"),
    "fetch": lambda _: (_program("mcp-server-fetch"), "--ignore-robots-txt", "--allow-private-ips"),
    "filesystem": _files,
    "git": _repository,
    "time": lambda _: (_program("mcp-server-time"), "--local-timezone", "UTC"),
}
