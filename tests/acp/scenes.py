"""Scenes: a home with a scripted model, and the official client in front of our agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from acp import PROTOCOL_VERSION, RequestError, connect_to_agent, run_agent
from treadle.acp.agent import TreadleAgent
from treadle.cli.acp_home import AcpHome
from treadle.cli.cli_home import Home
from treadle.cli.run_options import RunOptions
from treadle.testing.script import Answer, Call

if TYPE_CHECKING:
    from acp import Client

__all__ = ["ASKING", "Editor", "Place", "run_command", "until"]

T = TypeVar("T")

ASKING = RunOptions(sandbox="danger-full-access", approval="untrusted")
"""Every command that is not known to be harmless is asked for; none needs a sandbox."""


def run_command(command: str, **more: Any) -> Answer:
    return Answer(
        calls=(Call(name="exec_command", arguments={"cmd": command, "login": False}),), **more
    )


@dataclass
class Editor:
    """A client: it keeps what it hears, and answers as it was told."""

    allows: str | None = "once"
    """The option that its user chooses; None dismisses the question."""
    fills_in: dict[str, Any] | None = None
    updates: list[Any] = field(default_factory=list)
    asked: list[tuple[ToolCallUpdate, list[PermissionOption]]] = field(default_factory=list)
    forms: list[tuple[str, Any]] = field(default_factory=list)
    hears: Callable[[Any], None] = lambda _: None
    waits: asyncio.Event | None = None
    """Questions are answered once it is set."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        del session_id
        self.updates.append(update)
        self.hears(update)

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        del session_id
        self.asked.append((tool_call, options))
        if self.waits is not None:
            await self.waits.wait()
        if self.allows is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        chosen = AllowedOutcome(outcome="selected", option_id=self.allows)
        return RequestPermissionResponse(outcome=chosen)

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.forms.append((message, mode))
        assert self.fills_in is not None
        return AcceptElicitationResponse(action="accept", content=self.fills_in)

    def of(self, kind: str) -> list[Any]:
        """All updates of a kind."""
        return [each for each in self.updates if each.session_update == kind]

    @property
    def text(self) -> str:
        """What the agent has said."""
        return "".join(each.content.text for each in self.of("agent_message_chunk"))

    def on_connect(self, conn: Any) -> None:
        """The official client tells whom it talks to."""

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        del params
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        del method, params


class _Half:
    """One end of a connection within this process."""

    def __init__(self, sent: asyncio.Queue[Any], received: asyncio.Queue[Any]) -> None:
        self._sent, self._received = sent, received

    async def send(self, message: dict[str, Any]) -> None:
        await self._sent.put(msgspec.json.decode(msgspec.json.encode(message)))

    async def receive(self) -> Any:
        return await self._received.get()

    async def close(self) -> None:
        await self._sent.put(None)


@dataclass
class Place:
    """A home and a project."""

    path: Path
    options: RunOptions = field(default_factory=lambda: RunOptions(sandbox="danger-full-access"))

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

    def agent(self, *answers: Answer) -> TreadleAgent:
        model = {"model": self.script(*answers)} if answers else {}
        options = msgspec.structs.replace(self.options, **model)
        return TreadleAgent(AcpHome(Home(self.home), options), "1.2.3", takes_servers=True)

    @asynccontextmanager
    async def connect(
        self, *answers: Answer, editor: Editor | None = None
    ) -> AsyncIterator[tuple[Any, Editor]]:
        """The official client, connected to an agent of its own in this process."""
        editor = editor or Editor()
        agent = self.agent(*answers)
        there, back = asyncio.Queue[Any](), asyncio.Queue[Any]()
        serving = asyncio.create_task(
            run_agent(agent, _Half(back, there), use_unstable_protocol=True)
        )
        client = connect_to_agent(
            cast("Client", editor), _Half(there, back), use_unstable_protocol=True
        )
        try:
            forms = ElicitationCapabilities(form=ElicitationFormCapabilities())
            can = ClientCapabilities(elicitation=forms if editor.fills_in is not None else None)
            await client.initialize(PROTOCOL_VERSION, client_capabilities=can)
            yield client, editor
        finally:
            await client.close()
            await serving
            await agent.close()


async def until(holds: Callable[[], T | None]) -> T:
    """Wait until something holds; return it."""
    while True:
        if (found := holds()) is not None:
            return found
        await asyncio.sleep(0.01)
