"""The task: goal, plan and touched files, read from the log.

Owns how they are recognised in items. Because they come from the log and not from
a summary, no compaction can lose them. Invariant: a pure function of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Literal

from msgspec import Raw, Struct

from ..core.items import CustomToolCallOutput, FunctionCall, FunctionCallOutput, text_of
from ..core.typed import decode_json
from ..core.wire import NULL, UNREADABLE, Json, json_bytes
from ..prompt.prompt_context import PlanStep, Task
from ..prompt.state_fragment import Known
from .row import Row
from .view import View

__all__ = ["read_task", "task_snapshot"]

_RELEVANT = frozenset({"function_call", "function_call_output", "custom_tool_call_output"})
_APPLIED = "Success. Updated the following files:\n"


class _Step(Struct, frozen=True):
    step: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class _Plan(Struct, frozen=True):
    plan: tuple[_Step, ...]


def task_snapshot(view: View, keep_from: int) -> Json | None:
    """The task at a boundary, for the fragment that tells it; None when there is none."""
    told = view.baselines.get("task_state")
    snapshot = told.snapshot if isinstance(told, Known) else NULL
    before = decode_json(snapshot, Task | None)
    task = read_task(view.rows[:keep_from], view.settings, before)
    return None if task == Task() else Raw(json_bytes(task))


def read_task(
    rows: Iterable[Row], settings: Mapping[str, Json], before: Task | None = None
) -> Task:
    """The task after `rows`, starting from what was known `before`."""
    task = before or Task()
    plan, files = task.plan, dict.fromkeys(task.files)
    for row in rows:
        if row.shape.type not in _RELEVANT:
            continue
        match row.item:
            case FunctionCall(name="update_plan", arguments=arguments):
                plan = _plan(arguments, plan)
            case FunctionCallOutput(output=output) | CustomToolCallOutput(output=output):
                files.update(dict.fromkeys(_touched_paths(text_of(output))))
    return Task(_goal(settings, task.goal), plan, tuple(files))


def _plan(arguments: str, before: tuple[PlanStep, ...]) -> tuple[PlanStep, ...]:
    """The plan that was asked for; the one `before` when that cannot be read."""
    try:
        steps = decode_json(arguments, _Plan).plan
        return tuple(PlanStep(step.step, step.status) for step in steps)
    except UNREADABLE:
        return before


def _touched_paths(output: str) -> list[str]:
    """The files that a patch changed, as its result names them, however it was applied."""
    _, found, listed = output.partition(_APPLIED)
    lines = listed.splitlines() if found else []
    named = takewhile(lambda line: line[:2] in ("A ", "M ", "D "), lines)
    return [line[2:] for line in named]


def _goal(settings: Mapping[str, Json], before: str) -> str:
    if "goal" not in settings:
        return before
    return decode_json(settings["goal"], str | None) or ""
