"""The app-server as a model: requests outside any conversation.

Owns asking a model that only Codex reaches, on an ephemeral thread. Invariant: nothing of
it is written, the sandbox is read-only, and only the model's output is returned.
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
from ...core.typed import convert
from ...models.contract import (
    AuthFailed,
    Capabilities,
    Connected,
    ContextOverflow,
    ModelError,
    ModelEvent,
    ModelRequest,
    StreamCut,
    WireFormat,
)
from ...models.formats import format_named
from ...policy.auth.credential import AuthError
from ...policy.failures import UNUSABLE
from ..contract import Identifies, nobody
from .errors import CodexError, CodexProtocolError, Disconnected
from .native_projection import is_model_output
from .protocol.client_requests import (
    InjectItems,
    InterruptTurn,
    StartThread,
    StartTurn,
    UnsubscribeThread,
)
from .protocol.notifications import (
    MessageDeltaNotification,
    Notification,
    RawItemNotification,
    RawResponseNotification,
    TurnCompletedNotification,
)
from .protocol.server_requests import ClientReply, ServerRequest
from .protocol.types import CodexTurnError
from .server_access import PROVIDER
from .server_connection import AppServerConnection
from .server_pool import ServerPool
from .thread_events import Subscription

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
"""Settings of a thread without context of its own and without tools."""


class _RequestBody(Struct):
    """The items in the body of a request."""

    input: tuple[Raw, ...] = ()


_body = msgspec.json.Decoder(_RequestBody)


@dataclass(slots=True)
class AppServerModel:
    """A model that is reached through the app-server."""

    name: str
    servers: ServerPool
    identity: Identifies = nobody
    """The identity that pays; without one, the login of the server."""

    @property
    def capabilities(self) -> Capabilities:
        """Return what the model can do this way: text only."""
        return Capabilities(output_schema=True, caches_prefixes=False, parallel_tool_calls=False)

    @property
    def format(self) -> WireFormat:
        """Return the format of the Responses API, which Codex's items have."""
        return format_named("responses")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        """Stream the answer to a request on a thread of its own."""
        provider = self.name.partition(":")[0]
        try:
            access = self.servers.access(provider, await self.identity())
            server = await self.servers.server(access, unlimited=False)
            connection = await self.servers.connect(server, access)
            route = access.route.config() if access.route else {}
            opened, events = await connection.open_thread(_thread_start(request, route), _refuse)
        except AuthError as error:
            raise AuthFailed(str(error), code=UNUSABLE) from error
        except CodexError as error:
            raise StreamCut(str(error), retryable=isinstance(error, Disconnected)) from error
        query = _Query(connection, events, opened.thread.id)
        try:
            # The id of a turn that Codex has started must be known, or nobody could stop it.
            await finish_uncancelled(query.start(request))
            yield (Connected(),)
            async for batch in query.answers():
                yield batch
        except CodexError as error:
            raise StreamCut(str(error), retryable=isinstance(error, Disconnected)) from error
        finally:
            await finish_uncancelled(query.release())

    async def close(self) -> None:
        """Do nothing: the process belongs to the harness."""


def _thread_start(request: ModelRequest, route: dict[str, Any]) -> StartThread:
    return StartThread(
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
class _Query:
    """One request on a thread of its own."""

    connection: AppServerConnection
    events: Subscription
    thread: str
    turn: str = ""
    ended: bool = False

    async def start(self, request: ModelRequest) -> None:
        """Start the turn."""
        items = _body.decode(request.body).input
        if items:
            await self.connection.call(InjectItems(thread_id=self.thread, items=items))
        head = request.head
        schema = None if head.output_schema is msgspec.UNSET else head.output_schema
        result = await self.connection.call(
            StartTurn(
                thread_id=self.thread,
                input=(),
                effort=head.effort,
                output_schema=None if schema is None else msgspec.json.decode(schema),
            )
        )
        self.turn = result.turn.id

    async def answers(self) -> AsyncGenerator[Sequence[ModelEvent], None]:
        """Return the output of the model until the turn ends."""
        response: RawResponseNotification | None = None
        async for event in self.events:
            match event:
                case RawResponseNotification():
                    response = event
                case TurnCompletedNotification():
                    self.ended = True
                    if event.turn.status != "completed":
                        _raise_error(event.turn.error)
                    yield (_completion(response),)
                    return
                case _ if (converted := _model_event(event)) is not None:
                    yield (converted,)
        raise StreamCut("the Codex app-server stopped answering", retryable=True)

    async def release(self) -> None:
        """Unsubscribe, and interrupt a turn that would go on without a listener."""
        await self.events.close()
        with suppress(CodexError):
            if self.turn and not self.ended:
                stop = InterruptTurn(thread_id=self.thread, turn_id=self.turn)
                await self.connection.call(stop)
            await self.connection.call(UnsubscribeThread(thread_id=self.thread))


def _model_event(event: Notification) -> ModelEvent | None:
    match event:
        case MessageDeltaNotification():
            return OutputTextDelta(event.delta)
        case RawItemNotification() if is_model_output(event.item):
            return OutputItemDone(event.item)
    return None


def _completion(response: RawResponseNotification | None) -> ResponseCompleted:
    name = response.response_id if response else new_id("resp")
    usage = response.usage_metadata if response else None
    body = {"id": name, "usage": msgspec.json.decode(usage.metadata) if usage else None}
    return ResponseCompleted(convert(body, CompletedBody))


def _raise_error(error: CodexTurnError | None) -> NoReturn:
    message = error.message if error else "the turn was interrupted"
    if error is not None and error.is_overflow:
        raise ContextOverflow(message)
    raise ModelError(message, status=error.http_status if error else None)


async def _refuse(request: ServerRequest) -> ClientReply:
    raise CodexProtocolError(f"nothing is answered outside a conversation: {request.method}")
