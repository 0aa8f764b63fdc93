"""Real app-servers for tests: a private home, and only the test's own model server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from treadle.harness.codex.app_server import AppServer, ServerCommand
from treadle.harness.codex.codex_home import CodexHome
from treadle.harness.codex.server_access import ProviderRoute
from treadle.prompt.codex_import import find_codex

from .warm_home import warm_home

__all__ = ["private_environ", "real_command", "serving", "wait_until_gone"]


def private_environ(directory: Path) -> dict[str, str]:
    """The environment of a user who has nothing but a home."""
    home = directory / "user"
    home.mkdir(exist_ok=True)
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home)}


def real_command(
    directory: Path, *routes: ProviderRoute, catalog: Path | None = None
) -> ServerCommand:
    """How the installed Codex is started in a private home."""
    warm_home(directory / "treadle", find_codex())
    home = CodexHome.below(directory / "treadle")
    return home.prepare(find_codex(), private_environ(directory), routes, catalog=catalog)


@asynccontextmanager
async def serving(server: AppServer) -> AsyncIterator[AppServer]:
    """A server that is closed afterwards."""
    try:
        yield server
    finally:
        await server.close()


async def wait_until_gone(pid: int) -> bool:
    """Whether a process has ended, or does so soon."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        await asyncio.sleep(0.05)
    return False
