"""Scenes: a home with a scripted model, served, and the official SDK's client in front of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from mcp.client.session import ClientRequestContext, ElicitationFnT

from mcp import Client, types
from treadle import __version__
from treadle.cli.cli_home import Home
from treadle.cli.configured_home import ConfiguredHome
from treadle.cli.run_options import RunOptions
from treadle.mcp_server.agent_server import AgentServer
from treadle.testing.script import Answer, Call

__all__ = [
    "ASKING",
    "NEW",
    "OLD",
    "Place",
    "accept",
    "fields_of",
    "run_ls",
    "text_of",
    "until",
]

OLD, NEW = "legacy", "2026-07-28"
"""The two eras of the protocol, as the SDK's client calls them."""

T = TypeVar("T")

ASKING = RunOptions(sandbox="danger-full-access", approval="untrusted")
"""Every command that is not known to be harmless is asked for; none needs a sandbox."""


def run_ls(command: str = "touch made") -> Answer:
    """An answer that runs a command which is asked for."""
    return Answer(calls=(Call(name="exec_command", arguments={"cmd": command}),))


def accept(**content: Any) -> ElicitationFnT:
    """A user who fills in the form like this."""

    async def answer(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        del context, params
        return types.ElicitResult(action="accept", content=content)

    return answer


@dataclass
class Place:
    """A home and a project."""

    path: Path
    options: RunOptions = field(default_factory=RunOptions)
    roots: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        self.home.mkdir(mode=0o700, exist_ok=True)
        self.project.mkdir(exist_ok=True)

    @property
    def home(self) -> Path:
        return self.path / "home"

    @property
    def project(self) -> Path:
        return self.path / "project"

    def script(self, *answers: Answer) -> str:
        """Write what the model answers, in every thread from its beginning; return its name."""
        file = self.path / "script.jsonl"
        file.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in answers))
        return f"scripted:{file}"

    def server(self, *answers: Answer) -> AgentServer:
        options = msgspec.structs.replace(
            self.options, model=self.script(*answers), cwd=self.project
        )
        served = ConfiguredHome(Home(self.home), options, self.roots or (self.project,))
        return AgentServer(served, __version__)

    @asynccontextmanager
    async def client(
        self,
        *answers: Answer,
        era: str = NEW,
        answering: ElicitationFnT | None = None,
        server: AgentServer | None = None,
        **options: Any,
    ) -> AsyncIterator[Client]:
        """A client of a server of its own, in this process."""
        server = server or self.server(*answers)
        try:
            async with Client(
                server.protocol, mode=era, elicitation_callback=answering, **options
            ) as client:
                yield client
        finally:
            await server.turns.close()


async def until(holds: Callable[[], T | None]) -> T:
    """Wait until something holds; return it."""
    while True:
        if (found := holds()) is not None:
            return found
        await asyncio.sleep(0.01)


def text_of(result: types.CallToolResult) -> str:
    (part,) = result.content
    assert isinstance(part, types.TextContent)
    return part.text


def fields_of(result: types.CallToolResult) -> Mapping[str, Any]:
    assert isinstance(result.structured_content, dict), result
    return result.structured_content
