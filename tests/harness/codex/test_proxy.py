from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.codex.harness import CodexHarness
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Call, Script

from .scenes import Stage, codex, hear, last, providers, surroundings
from .warm_home import warm_home

LOGIN = "me:open-sesame"


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[tuple[str, list[str]]]:
    """The address of a proxy that wants a password, and the first lines that came with it."""
    heard: list[str] = []
    wanted = f"proxy-authorization: basic {base64.b64encode(LOGIN.encode()).decode()}"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, _, rest = head.partition("\r\n")
        if wanted.lower() in head.lower():
            heard.append(first)
            verb, url, version = first.split()
            there, sender = await asyncio.open_connection("127.0.0.1", port)
            path = "/" + url.split("/", 3)[3]
            sender.write(f"{verb} {path} {version}\r\nConnection: close\r\n{rest}".encode())
            await asyncio.gather(_pump(reader, sender), _pump(there, writer))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://{LOGIN}@127.0.0.1:{server.sockets[0].getsockname()[1]}", heard
    finally:
        server.close()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        target.write(data)
    target.close()


async def test_codex_reaches_a_provider_behind_a_proxy_with_a_password(tmp_path: Path):
    environ = surroundings(tmp_path)
    warm_home(tmp_path / "treadle", codex())
    look = Call(name="exec_command", arguments={"cmd": "env; echo done"})
    script = Script(answers=(Answer(calls=(look,)), Answer(text="Hello.")))
    async with FakeServer(script) as server:
        port = int(server.base_url.split(":")[2].partition("/")[0])
        async with proxy_to(port) as (address, heard):
            known = providers("http://model.invalid/v1")
            harness = CodexHarness(
                CodexOptions(binary=codex()),
                home=tmp_path / "treadle",
                environ={**environ, "HTTP_PROXY": address, "http_proxy": address},
                providers=known,
            )
            stage = Stage(tmp_path, server, harness, environ, known)
            try:
                async with stage.thread() as thread:
                    events = await hear(thread, "Hi!")
            finally:
                await harness.close()
        assert last(events).text == "Hello."
        assert heard == ["POST http://model.invalid/v1/responses HTTP/1.1"] * 2
        assert "done" in server.requests[-1].body.decode()
        assert "open-sesame" not in server.requests[-1].body.decode()
