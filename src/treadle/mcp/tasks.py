"""Tasks: calls that a server answers with a promise, and finishes later.

Owns following a task to its end, in the process that started it and in a later one. Invariants:
the name of a task is durable before anybody waits for it, so that after a crash its real outcome
is asked for; a task that nobody waits for any more is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, ClassVar, Literal

import mcp_types as types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import Field, TypeAdapter

__all__ = ["TASK_STARTED", "TasksExtension", "follow_task"]

TASK_STARTED: ContextVar[Callable[[str], Awaitable[None]] | None] = ContextVar(
    "mcp_task_started", default=None
)
"""Awaited with the name of a task that a call has become."""

_SHORTEST, _USUAL, _LONGEST = 0.02, 1.0, 60.0
_CANCEL_SECONDS = 2.0
_inputs: TypeAdapter[types.InputRequest] = TypeAdapter(types.InputRequest)


class _TaskParams(types.RequestParams):
    task_id: str = Field(alias="taskId")


class _UpdateParams(_TaskParams):
    input_responses: dict[str, Any] = Field(alias="inputResponses", default_factory=dict)


class _GetTask(types.Request[_TaskParams, Literal["tasks/get"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskParams


class _CancelTask(types.Request[_TaskParams, Literal["tasks/cancel"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _TaskParams


class _UpdateTask(types.Request[_UpdateParams, Literal["tasks/update"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/update"] = "tasks/update"
    params: _UpdateParams


class _TaskHandle(types.Result):
    """The answer to a call that has become a task."""

    result_type: Literal["task"] = Field(alias="resultType", default="task")
    task_id: str = Field(alias="taskId")
    poll_interval_ms: float | None = Field(alias="pollIntervalMs", default=None)


class _Task(types.Result):
    """What a server says of a task."""

    status: str = "working"
    status_message: str | None = Field(alias="statusMessage", default=None)
    poll_interval_ms: float | None = Field(alias="pollIntervalMs", default=None)
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = Field(alias="inputRequests", default=None)


class TasksExtension(ClientExtension):
    """Takes tasks as answers to calls."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Return the one shape of answers that it finishes."""
        return (ResultClaim(result_type="task", model=_TaskHandle, resolve=self._resolve),)

    async def _resolve(self, handle: _TaskHandle, ctx: ClaimContext) -> types.CallToolResult:
        started = TASK_STARTED.get()
        if started is not None:
            await started(handle.task_id)
        return await follow_task(ctx.session, handle.task_id, pause=_pause(handle.poll_interval_ms))


async def follow_task(
    session: ClientSession, task: str, *, pause: float = 0.0
) -> types.CallToolResult:
    """Wait for a task and return its outcome; answer what it asks meanwhile.

    Raises `MCPError` for one that failed, was cancelled, or is not known.
    """
    try:
        while True:
            await asyncio.sleep(pause)
            told = await session.send_request(_GetTask(params=_TaskParams(taskId=task)), _Task)
            match told.status:
                case "completed":
                    return types.CallToolResult.model_validate(told.result or {"content": []})
                case "failed" | "cancelled":
                    error = told.error or {}
                    message = error.get("message") or told.status_message or "no reason given"
                    raise MCPError(types.INTERNAL_ERROR, f"the task was {told.status}: {message}")
                case "input_required":
                    await _answer(session, task, told.input_requests or {})
            pause = _pause(told.poll_interval_ms)
    except asyncio.CancelledError:
        await _cancel(session, task)
        raise


def _pause(wanted: float | None) -> float:
    """Return the seconds until a task should be asked for again."""
    seconds = _USUAL if wanted is None else wanted / 1000
    return min(max(seconds, _SHORTEST), _LONGEST)


async def _answer(session: ClientSession, task: str, requests: dict[str, Any]) -> None:
    responses: dict[str, Any] = {}
    for key, raw in requests.items():
        context = ClientRequestContext(session=session, request_id=key)
        answer = await session.dispatch_input_request(context, _inputs.validate_python(raw))
        responses[key] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    params = _UpdateParams(taskId=task, inputResponses=responses)
    await session.send_request(_UpdateTask(params=params), types.EmptyResult)


async def _cancel(session: ClientSession, task: str) -> None:
    """Tell the server that nobody waits any more; it may be gone."""
    with suppress(Exception):
        async with asyncio.timeout(_CANCEL_SECONDS):
            request = _CancelTask(params=_TaskParams(taskId=task))
            await session.send_request(request, types.EmptyResult)
