"""The app-server as a model: questions outside any conversation.

Owns asking a model that only Codex reaches, on a thread that is kept nowhere. Invariant:
nothing of it is written, the sandbox lets it change nothing, and what the model answers
is all that comes back.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec
from msgspec import Raw, Struct

from ...core.aio import finish_uncancelled
from ...core.ids import new_id
from ...core.stream import CompletedBody, OutputItemDone, OutputTextDelta, ResponseCompleted
from ...models.contract import (
    AuthFailed,
    Capabilities,
    Connected,
    ContextOverflow,
    ModelError,
    ModelEvent,
    ModelRequest,
    StreamCut,
)
from ...models.format import WireFormat
from ...models.formats import format_named
from ...policy.auth.errors import AuthError
from ...policy.failures import UNUSABLE
from ..contract import Identifies, nobody
from .connection import AppServerConnection
from .errors import CodexError, CodexProtocolError, Disconnected
from .protocol.asks import ClientReply, ServerRequest
from .protocol.notifications import (
    MessageDeltaNotification,
    Notification,
    RawItemNotification,
    RawResponseNotification,
    TurnCompletedNotification,
)
from .protocol.requests import (
    ThreadInject,
    ThreadStart,
    ThreadUnsubscribe,
    TurnInterrupt,
    TurnStart,
)
from .protocol.values import CodexTurnError
from .provided import is_model_output
from .route import PROVIDER
from .servers import ServerPool
from .subscription import Subscription

__all__ = ["AppServerModel"]

_BARE: dict[str, Any] = {
    "include_permissions_instructions": False,
    "include_environment_context": False,
    "include_collaboration_mode_instructions": False,
    "include_apps_instructions": False,
    "project_doc_max_bytes": 0,
    "web_search": "disabled",
    "skills.include_instructions": False,
    "skills.bundled.enabled": False,
    "agents.enabled": False,
    "features.goals": False,
    "features.multi_agent": False,
    "features.shell_tool": False,
    "features.sleep_tool": False,
    "features.unified_exec": False,
    "features.view_image": False,
    "tools.experimental_request_user_input.enabled": False,
}
"""Settings of a thread that is told nothing but the question, and has no hands."""


class _Asked(Struct):
    """The items of a request's body."""

    input: tuple[Raw, ...] = ()


_asked = msgspec.json.Decoder(_Asked)


@dataclass(slots=True)
class AppServerModel:
    """Answers through the app-server."""

    name: str
    servers: ServerPool
    identity: Identifies = nobody
    """Whose account pays; the server's own login for nobody."""

    @property
    def capabilities(self) -> Capabilities:
        """What can be asked this way: for words, and no more."""
        return Capabilities(output_schema=True, caches_prefixes=False, parallel_tool_calls=False)

    @property
    def format(self) -> WireFormat:
        """Codex's items are those of the Responses API."""
        return format_named("responses")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        """Ask on a thread of its own, and let go of the thread."""
        provider = self.name.partition(":")[0]
        try:
            way = self.servers.access(provider, await self.identity())
            server = await self.servers.server(way, lifted=False)
            connection = await self.servers.connect(server, way)
            route = way.route.config() if way.route else {}
            opened, events = await connection.open_thread(_start(request, route), _refuse)
        except AuthError as error:
            raise AuthFailed(str(error), code=UNUSABLE) from error
        except CodexError as error:
            raise StreamCut(str(error), retryable=isinstance(error, Disconnected)) from error
        question = _Question(connection, events, opened.thread.id)
        try:
            # A turn that Codex has begun must be known, or nobody could stop it.
            await finish_uncancelled(question.ask(request))
            yield (Connected(),)
            async for batch in question.answers():
                yield batch
        except CodexError as error:
            raise StreamCut(str(error), retryable=isinstance(error, Disconnected)) from error
        finally:
            await finish_uncancelled(question.let_go())

    async def close(self) -> None:
        """Nothing is held: the process belongs to the harness."""


def _start(request: ModelRequest, route: dict[str, Any]) -> ThreadStart:
    return ThreadStart(
        model=request.head.model,
        model_provider=PROVIDER if route else None,
        approval_policy="never",
        sandbox="read-only",
        base_instructions=request.head.instructions,
        config={**route, **_BARE},
        environments=(),
        ephemeral=True,
        experimental_raw_events=True,
    )


@dataclass(slots=True)
class _Question:
    """One question on a thread of its own."""

    connection: AppServerConnection
    events: Subscription
    thread: str
    turn: str = ""
    over: bool = False

    async def ask(self, request: ModelRequest) -> None:
        """Put it to the model."""
        items = _asked.decode(request.body).input
        if items:
            await self.connection.call(ThreadInject(thread_id=self.thread, items=items))
        head = request.head
        schema = None if head.output_schema is msgspec.UNSET else head.output_schema
        begun = await self.connection.call(
            TurnStart(
                thread_id=self.thread,
                input=(),
                effort=head.effort,
                output_schema=None if schema is None else msgspec.json.decode(schema),
            )
        )
        self.turn = begun.turn.id

    async def answers(self) -> AsyncGenerator[Sequence[ModelEvent], None]:
        """What the model says, until the turn is over."""
        response: RawResponseNotification | None = None
        async for event in self.events:
            match event:
                case RawResponseNotification():
                    response = event
                case TurnCompletedNotification():
                    self.over = True
                    if event.turn.status != "completed":
                        _fail(event.turn.error)
                    yield (_completed(response),)
                    return
                case _ if (told := _event(event)) is not None:
                    yield (told,)
        raise StreamCut("the Codex app-server stopped answering", retryable=True)

    async def let_go(self) -> None:
        """Leave nothing behind; a turn would go on although nobody listens."""
        await self.events.close()
        with suppress(CodexError):
            if self.turn and not self.over:
                stop = TurnInterrupt(thread_id=self.thread, turn_id=self.turn)
                await self.connection.call(stop)
            await self.connection.call(ThreadUnsubscribe(thread_id=self.thread))


def _event(event: Notification) -> ModelEvent | None:
    match event:
        case MessageDeltaNotification():
            return OutputTextDelta(event.delta)
        case RawItemNotification() if is_model_output(event.item):
            return OutputItemDone(event.item)
    return None


def _completed(response: RawResponseNotification | None) -> ResponseCompleted:
    name = response.response_id if response else new_id("resp")
    told = response.usage_metadata if response else None
    body = {"id": name, "usage": msgspec.json.decode(told.metadata) if told else None}
    return ResponseCompleted(msgspec.convert(body, CompletedBody))


def _fail(error: CodexTurnError | None) -> NoReturn:
    said = error.message if error else "the turn was interrupted"
    if error is not None and error.is_overflow:
        raise ContextOverflow(said)
    raise ModelError(said, status=error.http_status if error else None)


async def _refuse(ask: ServerRequest) -> ClientReply:
    raise CodexProtocolError(f"nothing is answered outside a conversation: {ask.method}")
