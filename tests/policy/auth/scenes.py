from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from treadle.core.loopback import LoopbackListener
from treadle.policy.auth import OAuth

HOUR = 3_600_000


@dataclass
class Clock:
    """A clock that moves when it is told to."""

    at: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.at


class TokenEndpoint(LoopbackListener):
    """A token endpoint that gives each refresh token one new pair, and only once."""

    def __init__(self, first: str = "planted-refresh-0") -> None:
        super().__init__()
        self.good, self.number = first, 0
        self.asked: list[dict[str, str]] = []
        self.answer: Callable[[], tuple[int, bytes]] | None = None
        self.before: Callable[[], Awaitable[None]] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/oauth/token"

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.partition("content-length:")[2].split()[0])
        form = parse_qs((await reader.readexactly(size)).decode())
        self.asked.append({name: values[0] for name, values in form.items()})
        status, body = self.answer() if self.answer else self._turn(self.asked[-1])
        if self.before:
            await self.before()
        lines = f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(lines.encode() + body)
        await writer.drain()

    def _turn(self, asked: dict[str, str]) -> tuple[int, bytes]:
        if asked["refresh_token"] != self.good:
            return 400, json.dumps({"error": "invalid_grant", "was": asked}).encode()
        self.number += 1
        self.good = f"planted-refresh-{self.number}"
        pair = {"access_token": f"planted-access-{self.number}", "refresh_token": self.good}
        return 200, json.dumps({**pair, "expires_in": 3600}).encode()


def oauth(url: str, expires: int = 0, provider: str = "openai") -> OAuth:
    return OAuth(
        provider=provider,
        access="planted-access-0",
        refresh="planted-refresh-0",
        expires=expires,
        token_url=url,
        client_id="treadle-tests",
    )


@dataclass
class Child:
    """Another process of the same user, running `code` with `home` and `args` at hand."""

    code: str
    home: Path
    args: tuple[str, ...] = ()
    path: Path | None = None
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        start = "import sys\nfrom pathlib import Path\nhome = Path(sys.argv[1])\n"
        environment = {"PATH": "/usr/bin:/bin"}
        if self.path is not None:
            environment["PYTHONPATH"] = str(self.path)
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", start + self.code, str(self.home), *self.args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def end(self) -> str:
        """What it printed."""
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        return out

    async def ended(self) -> str:
        return await asyncio.to_thread(self.end)


def everything_in(home: Path) -> dict[str, bytes]:
    """Every file under `home`."""
    return {
        str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()
    }


def until(holds: Callable[[], Any]) -> None:
    """Wait until something holds; the test's own time limit ends it."""
    while not holds():
        time.sleep(0.005)
