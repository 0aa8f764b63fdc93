"""The server that the conformance suite calls: a real one, and a door that shows its token."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.cli.terminal import SCRIPT
from tests.fork_server import Process
from tests.mcp_server.scenes import Place
from tests.mcp_server.test_stdio import environ
from treadle.testing.script import Answer

__all__ = ["served"]


@contextmanager
def served() -> Iterator[str]:
    """Yield an address of a server whose token is sent for everybody who calls there."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Place(Path(scratch))
        model = place.script(Answer(text="Done.", times=0))
        with socket.create_server(("127.0.0.1", 0)) as door:
            port = door.getsockname()[1]
            names = [f"{host}:{port}" for host in ("127.0.0.1", "localhost")]
            allowed = [word for name in names for word in ("--allow-host", name)]
            allowed += [word for name in names for word in ("--allow-origin", f"http://{name}")]
            command = [str(SCRIPT), "mcp", "serve", "--http", "--json", "--model", model, *allowed]
            with Process(command, cwd=place.project, env=environ(place)) as process:
                told = json.loads(process.stdout.readline())
                token = Path(told["token_in"]).read_text().strip()
                stop = threading.Event()
                work = _keep_door(door, urlsplit(told["url"]).port or 0, token, stop)
                thread = threading.Thread(target=asyncio.run, args=(work,))
                thread.start()
                try:
                    yield f"http://127.0.0.1:{port}/mcp"
                finally:
                    stop.set()
                    thread.join()


async def _keep_door(door: socket.socket, port: int, token: str, stop: threading.Event) -> None:
    """Pass on what comes to the door, with the token, until it is closed."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", port)
            head = await reader.readuntil(b"\r\n\r\n")
            shown = f"\r\nauthorization: Bearer {token}\r\nconnection: close\r\n".encode()
            lines = [
                line
                for line in head.removesuffix(b"\r\n\r\n").split(b"\r\n")
                if not line.lower().startswith(b"connection:")
            ]
            back.write(b"\r\n".join(lines) + shown + b"\r\n")
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # Cancelled when the door closes: a connection that is open then has nobody left.
            writer.close()

    async with await asyncio.start_server(pass_on, sock=door):
        await asyncio.to_thread(stop.wait)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    finally:
        sink.close()
