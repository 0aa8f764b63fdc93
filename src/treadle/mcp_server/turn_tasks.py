"""Turn tasks: a turn whose call is answered at once, and whose end is asked for later.

Owns the extension for tasks. Invariant: the id of a task names its thread and its turn, so
that another process finds what came of it in the log.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from mcp.shared.exceptions import MCPError
from pydantic import Field

from mcp import types

from ..core.errors import NotFound
from .agent_home import AgentHome, TurnReport
from .callers import TASKS, Context, caller_of
from .live_turns import LiveTurn, LiveTurns
from .results import report_result
from .turn_calls import answer_forms, forms_of

__all__ = ["METHODS", "TaskParams", "TaskUpdateParams", "TurnTasks", "task_handle"]

_POLL = 1_000
"""Milliseconds after which a client asks again."""
_NO_CAPABILITY = -32021


class TaskParams(types.RequestParams):
    """Which task."""

    task_id: str = Field(alias="taskId", max_length=200)


class TaskUpdateParams(TaskParams):
    """Which task, and what its user answers."""

    input_responses: dict[str, types.ElicitResult] = Field(
        alias="inputResponses", default_factory=dict
    )


def task_handle(turn: LiveTurn) -> dict[str, Any]:
    """Return the answer to a call whose turn goes on."""
    return {"resultType": "task", **_facts(turn.id, "working", turn.activity)}


class TurnTasks:
    """Answers what clients ask about turns that were started as tasks."""

    def __init__(self, home: AgentHome, turns: LiveTurns) -> None:
        self._home = home
        self._turns = turns

    async def get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """Return how a turn goes, or how it ended."""
        _require_tasks(ctx)
        turn = self._live(params.task_id)
        if turn is None:
            return _end_facts(params.task_id, await self._report_of(params.task_id))
        if turn.report is not None:
            return _end_facts(turn.id, turn.report)
        if not turn.questions:
            return _facts(turn.id, "working", turn.activity)
        requests = {
            name: request.model_dump(by_alias=True, mode="json", exclude_none=True)
            for name, request in forms_of(turn).items()
        }
        waiting = _facts(turn.id, "input_required", turn.activity)
        return {**waiting, "inputRequests": requests}

    async def update(self, ctx: Context, params: TaskUpdateParams) -> dict[str, Any]:
        """Take the answers of the client's user."""
        _require_tasks(ctx)
        turn = self._live(params.task_id)
        if turn is None:
            await self._report_of(params.task_id)
        else:
            answer_forms(turn, params.input_responses)
        return {}

    async def cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """Interrupt a turn, if it still runs."""
        _require_tasks(ctx)
        turn = self._live(params.task_id)
        if turn is None:
            await self._report_of(params.task_id)
        else:
            turn.interrupt()
        return {}

    def _live(self, task: str) -> LiveTurn | None:
        return self._turns.find(lambda turn: turn.id == task)

    async def _report_of(self, task: str) -> TurnReport:
        thread, _, name = task.partition(".")
        try:
            return await self._home.report(thread, name)
        except NotFound:
            raise MCPError(types.INVALID_PARAMS, f"there is no task {task!r}") from None


METHODS = (
    ("tasks/get", TaskParams),
    ("tasks/update", TaskUpdateParams),
    ("tasks/cancel", TaskParams),
)


def _end_facts(task: str, report: TurnReport) -> dict[str, Any]:
    if report.status == "running":
        return _facts(task, "working", "another process runs it")
    if report.status == "interrupted":
        return _facts(task, "cancelled", report.error)
    result = report_result(report).model_dump(by_alias=True, mode="json", exclude_none=True)
    return {**_facts(task, "completed", ""), "result": {"resultType": "complete", **result}}


def _facts(task: str, status: str, message: str) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    return {
        "taskId": task,
        "status": status,
        **({"statusMessage": message} if message else {}),
        "createdAt": now,
        "lastUpdatedAt": now,
        "ttlMs": None,
        "pollIntervalMs": _POLL,
    }


def _require_tasks(ctx: Context) -> None:
    caller = caller_of(ctx)
    if not caller.modern:
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
    if not caller.takes_tasks:
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise MCPError(_NO_CAPABILITY, "the client has not declared that it takes tasks", needed)
