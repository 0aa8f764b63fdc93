"""Tools of servers, as tools that a model may call.

Owns one call: its arguments, the permission, the limits, and what its end means. Invariants: a
call is sent at most once; nothing that a server does ends more than this call; the time in which
the user is asked does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from ..core.items import InputText
from ..core.redact import redact
from ..core.specs import FunctionTool
from ..core.text import whole_characters
from ..models.formats.root_branches import joined_root
from ..tools.contract import Answers, Details, Progress, ToolCall, ToolContext, ToolResult
from ..tools.contract import UserQuestion as Question
from ..tools.tool_output import fit_result
from .call_permission import is_harmless, obtain_permission
from .checks import misfit_note
from .mcp_errors import CallFailed, ServerUnavailable
from .pending import pending_text
from .server_results import result_of
from .server_settings import McpServer
from .tool_list import ToolRecord

if TYPE_CHECKING:
    from mcp import Client

    from .elicitation import Elicitor

__all__ = ["ConnectsServer", "ServerTool", "call_limit"]

_CONNECTION_CLOSED, _INVALID_REQUEST, _VISIT_REQUIRED = -32000, -32600, -32042
_LONGEST_REASON = 1_000
_IN_HEADERS = b'"x-mcp-header"'
"""Marks parameters that a server over HTTP also wants as headers of the request."""
_TASK_LIMITS = 12
"""How many times the limit of a call a task may take."""


class _NotLookedAt(CallFailed):
    """A server refused the request itself, which it does for sessions that it does not know."""


class _VisitWanted(CallFailed):
    """A server does nothing before its user has visited some addresses."""

    def __init__(self, server: str, visits: object) -> None:
        self.visits = visits
        super().__init__(server, "has done nothing: the user has to visit an address first")


class ConnectsServer(Protocol):
    """What gives a tool its connection."""

    @property
    def elicitor(self) -> Elicitor:
        """What asks the user on behalf of servers."""
        ...

    async def client(self, server: str) -> Client:
        """Return the client of a server. Raises `ServerUnavailable`."""
        ...

    async def wait_listed(self, server: str) -> None:
        """Wait until a server has told what it offers. Raises `ServerUnavailable`."""
        ...

    def was_refused(self, server: str, client: Client) -> bool:
        """Return whether a server knows the session of a client no more."""
        ...


def call_limit(server: McpServer, tool: str) -> float:
    """Return the seconds that a call may take."""
    own = server.settings.tools.get(tool)
    return server.settings.timeout if own is None or own.timeout is None else own.timeout


class ServerTool:
    """One tool of a server."""

    def __init__(
        self, name: str, server: McpServer, record: ToolRecord, servers: ConnectsServer
    ) -> None:
        self.name, self.server, self.record = name, server, record
        self._servers = servers
        self._spec = FunctionTool(
            name=name,
            description=record.description,
            strict=False,
            parameters=joined_root(record.parameters),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ServerTool):
            return NotImplemented
        mine = (self.name, self.server, self.record)
        return mine == (other.name, other.server, other.record)

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def spec(self) -> FunctionTool:
        """Return the specification that the model gets."""
        return self._spec

    @property
    def parallel(self) -> bool:
        """Return whether calls may run beside others."""
        return self.server.settings.parallel or is_harmless(self.server, self.record)

    @property
    def replay_safe(self) -> bool:
        """Return whether a call changes nothing, as far as a trusted server says."""
        return is_harmless(self.server, self.record)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run a call."""
        arguments = _arguments(call.arguments)
        if isinstance(arguments, str):
            return ToolResult(f"invalid arguments for {self.name}: {arguments}", success=False)
        refused = await obtain_permission(
            self.server, self.record, self.name, call.arguments, context
        )
        if refused is not None:
            return refused.result(self.name)
        try:
            answer = await self._call(call.call_id, arguments, context)
        except (ServerUnavailable, CallFailed) as error:
            return _failure(self.name, str(error))
        return await _fit_texts(self._check_result(result_of(answer), answer), context)

    async def _call(self, call_id: str, arguments: dict[str, Any], context: ToolContext) -> Any:
        if _IN_HEADERS in bytes(self.record.parameters):
            # The SDK copies these arguments into headers once it has seen the live list.
            await self._servers.wait_listed(self.server.name)
        try:
            return await self._send_in_session(call_id, arguments, context)
        except _VisitWanted as wanted:
            elicitor, ask = self._servers.elicitor, context.ask_questions
            if not await elicitor.agree_to_visits(self.server.name, wanted.visits, ask):
                raise
        # It has done nothing yet: this is the first time that it is to act.
        return await self._send_in_session(call_id, arguments, context)

    async def _send_in_session(
        self, call_id: str, arguments: dict[str, Any], context: ToolContext
    ) -> Any:
        client = await self._servers.client(self.server.name)
        try:
            return await self._send(client, call_id, arguments, context)
        except _NotLookedAt:
            if not self._servers.was_refused(self.server.name, client):
                raise
        # It was started again and has looked at nothing: this is the first time that it is sent.
        client = await self._servers.client(self.server.name)
        return await self._send(client, call_id, arguments, context)

    async def _send(
        self, client: Client, call_id: str, arguments: dict[str, Any], context: ToolContext
    ) -> Any:
        from mcp import MCPError

        limit = call_limit(self.server, self.record.name)
        name = self.server.name

        async def show(progress: float, total: float | None, message: str | None) -> None:
            done = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
            text = f"{done} {whole_characters(message or '')}".strip()
            context.show_progress(Progress(call_id, f"{text[:_LONGEST_REASON]}\n"))

        try:
            async with asyncio.timeout(limit) as clock:
                ask = _stopping(clock, context)
                async with _staging_tasks(name, clock, limit, context):
                    with self._servers.elicitor.during(name, ask):
                        return await client.call_tool(
                            self.record.name, arguments, progress_callback=show
                        )
        except TimeoutError:
            raise CallFailed(
                name, f"did not answer within {limit:g} seconds; whether it acted is unknown"
            ) from None
        except MCPError as error:
            if error.code == _CONNECTION_CLOSED:
                raise CallFailed(
                    name, "ended while it worked on the call; how far it came is unknown"
                ) from error
            if error.code == _VISIT_REQUIRED:
                raise _VisitWanted(name, error.data) from error
            failed = _NotLookedAt if error.code == _INVALID_REQUEST else CallFailed
            raise failed(name, f"says: {_text(error)}") from error
        except asyncio.CancelledError:
            raise
        except Exception as error:
            raise CallFailed(name, f"gave no answer that can be read: {_text(error)}") from error

    def _check_result(self, result: ToolResult, answer: Any) -> ToolResult:
        """Say it where a structured result does not fit the schema of the server."""
        structured = getattr(answer, "structured_content", None)
        if self.record.returns is UNSET or structured is None or not result.success:
            return result
        text = msgspec.json.encode(structured).decode()
        note = misfit_note(text, self.record.returns)
        if not note:
            return result
        if isinstance(result.output, str):
            return replace(result, output=f"{note}\n{result.output}")
        return replace(result, output=(InputText(text=note), *result.output))


@asynccontextmanager
async def _staging_tasks(
    server: str, clock: asyncio.Timeout, limit: float, context: ToolContext
) -> AsyncIterator[None]:
    """Note the task that a call becomes, so that a later process can ask for its outcome."""
    from .tasks import TASK_STARTED

    take_back: list[Callable[[], Awaitable[None]]] = []

    async def note(task: str) -> None:
        clock.reschedule(asyncio.get_running_loop().time() + limit * _TASK_LIMITS)
        if context.stage_result is not None:
            pending = ToolResult(pending_text(server, task), success=False)
            take_back.append(await context.stage_result(pending))

    token = TASK_STARTED.set(note)
    try:
        yield
    finally:
        TASK_STARTED.reset(token)
        for each in take_back:
            await each()


def _stopping(clock: asyncio.Timeout, context: ToolContext) -> Any:
    """Return what asks the user while the clock of a call stands still; None with nobody there."""
    ask = context.ask_questions
    if ask is None:
        return None

    async def ask_and_wait(questions: tuple[Question, ...]) -> Answers:
        now = asyncio.get_running_loop().time
        left = (clock.when() or now()) - now()
        clock.reschedule(None)
        try:
            return await ask(questions)
        finally:
            clock.reschedule(now() + left)

    return ask_and_wait


def _arguments(text: str) -> dict[str, Any] | str:
    try:
        value = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return f"{error}; send one JSON object"
    return value if isinstance(value, dict) else "send one JSON object"


def _failure(name: str, reason: str) -> ToolResult:
    text = redact(reason)
    return ToolResult(
        f"{name} failed: {text}", success=False, details=Details(status="error", error=text)
    )


def _text(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    text = " ".join(whole_characters(str(error)).split())[:_LONGEST_REASON]
    return text or type(error).__name__


async def _fit_texts(result: ToolResult, context: ToolContext) -> ToolResult:
    """Store texts that are too long beside images; a result that is one text is cut by dispatch."""
    if isinstance(result.output, str):
        return result
    parts = []
    for part in result.output:
        if isinstance(part, InputText):
            fitted = await fit_result(ToolResult(whole_characters(part.text)), context)
            assert isinstance(fitted.output, str)
            part = replace(part, text=fitted.output)  # noqa: PLW2901
        parts.append(part)
    return replace(result, output=tuple(parts))
