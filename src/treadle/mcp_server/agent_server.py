"""The agent server: from a request of the protocol to what it does in a home.

Owns the handlers. Invariants: what a call gets wrong is a result that the calling model reads,
never the end of the connection; and only so many requests are served at a time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from mcp import types

from ..core.errors import TreadleError
from .agent_home import AgentHome
from .callers import TASKS, Context, caller_of
from .live_turns import LiveTurns
from .results import error_result, value_result
from .served_resources import ServedResources
from .served_tools import INSTRUCTIONS, TOOLS, tool_list
from .tool_arguments import (
    ExpandArguments,
    ReplyArguments,
    RunArguments,
    SearchArguments,
    ShowArguments,
    ThreadsArguments,
    read_arguments,
)
from .turn_calls import answer_forms, follow_turn
from .turn_tasks import METHODS, TurnTasks, task_handle

__all__ = ["AgentServer"]

_MOST = 64
"""How many requests are served at a time; turns that wait count."""
_BUSY = -32000
_DAY = 86_400_000

_Arguments: TypeAlias = dict[str, Any] | None


class AgentServer:
    """Serves one home."""

    def __init__(self, home: AgentHome, version: str) -> None:
        self.home = home
        self.turns = LiveTurns(home)
        self._served = 0
        self._tools: dict[str, Callable[[Context, _Arguments], Awaitable[HandlerResult]]] = {
            "run": lambda ctx, given: self._start(ctx, given, RunArguments),
            "reply": lambda ctx, given: self._start(ctx, given, ReplyArguments),
            "threads": self._threads,
            "show": self._show,
            "recall_search": self._search,
            "recall_expand": self._expand,
        }
        self.protocol = self._make_protocol(version)
        """The SDK's server, for a transport to run."""

    def _make_protocol(self, version: str) -> Server[Any]:
        resources = ServedResources(self.home)
        protocol: Server[Any] = Server(
            "treadle",
            version=version,
            title="Treadle",
            instructions=INSTRUCTIONS,
            cache_hints={
                "tools/list": CacheHint(ttl_ms=_DAY, scope="public"),
                "resources/templates/list": CacheHint(ttl_ms=_DAY, scope="public"),
            },
            on_list_tools=self._list_tools,
            on_call_tool=self._call,  # type: ignore[arg-type] # a task's handle is a dictionary
            on_list_resources=resources.list,
            on_list_resource_templates=resources.templates,
            on_read_resource=resources.read,
        )
        tasks = TurnTasks(self.home, self.turns)
        for method, params in METHODS:
            handler = getattr(tasks, method.removeprefix("tasks/"))
            protocol.add_request_handler(method, params, handler)
        protocol.extensions[TASKS] = {}
        protocol.middleware.append(self._limit)
        return protocol

    async def _limit(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Refuse what is more than the machine should do at a time."""
        if ctx.request_id is None:
            return await call_next(ctx)
        if self._served >= _MOST:
            raise MCPError(_BUSY, f"{_MOST} requests are being served; wait until one has ended")
        self._served += 1
        try:
            return await call_next(ctx)
        finally:
            self._served -= 1

    async def _list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del ctx, params
        return types.ListToolsResult(tools=tool_list())

    async def _call(self, ctx: Context, params: types.CallToolRequestParams) -> HandlerResult:
        tool = self._tools.get(params.name)
        if tool is None:
            names = ", ".join(each.name for each in TOOLS)
            raise MCPError(
                types.INVALID_PARAMS, f"there is no tool {params.name!r}; there are {names}"
            )
        try:
            if params.request_state is not None:
                return await self._resume(ctx, params)
            return await tool(ctx, params.arguments)
        except TreadleError as error:
            return error_result(error)

    async def _start(
        self, ctx: Context, given: _Arguments, kind: type[RunArguments | ReplyArguments]
    ) -> HandlerResult:
        caller = caller_of(ctx)
        turn = self.turns.start(read_arguments(given, kind), attended=caller.asks_users)
        if caller.takes_tasks:
            await turn.begin()
            if turn.report is None:
                return task_handle(turn)
        return await follow_turn(ctx, caller, turn)

    async def _resume(self, ctx: Context, params: types.CallToolRequestParams) -> HandlerResult:
        """Go on waiting for a turn, with the answers of the client's user."""
        turn = self.turns.find(lambda each: each.id == params.request_state)
        if turn is None:
            raise TreadleError(
                "the turn that asked runs no more; `threads` lists its thread, `reply` goes on"
            )
        answer_forms(turn, params.input_responses or {})
        return await follow_turn(ctx, caller_of(ctx), turn)

    async def _threads(self, ctx: Context, given: _Arguments) -> HandlerResult:
        del ctx
        return value_result(await self.home.threads(read_arguments(given, ThreadsArguments).limit))

    async def _show(self, ctx: Context, given: _Arguments) -> HandlerResult:
        del ctx
        return value_result(await self.home.show(read_arguments(given, ShowArguments)))

    async def _search(self, ctx: Context, given: _Arguments) -> HandlerResult:
        del ctx
        return value_result(await self.home.search(read_arguments(given, SearchArguments)))

    async def _expand(self, ctx: Context, given: _Arguments) -> HandlerResult:
        del ctx
        return value_result(await self.home.expand(read_arguments(given, ExpandArguments)))
