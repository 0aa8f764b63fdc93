"""`update_plan`: the plan a model keeps, for people to see.

Owns its shape. Invariant: the plan lives in the log as the call itself, so the
tool only says whether it was understood.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ..core.specs import FunctionTool, parameters
from .arguments import BadArguments, read_arguments
from .contract import ToolCall, ToolContext, ToolResult

__all__ = ["UpdatePlan"]


class _Step(Struct, forbid_unknown_fields=True):
    step: str
    status: Literal["pending", "in_progress", "completed"]


class _Plan(Struct, forbid_unknown_fields=True):
    plan: tuple[_Step, ...]
    explanation: str | None = None


_STEP = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
        "step": {"type": "string"},
    },
    "required": ["step", "status"],
    "additionalProperties": False,
}


class UpdatePlan:
    """Takes note of a plan."""

    parallel = False
    replay_safe = True

    spec = FunctionTool(
        name="update_plan",
        description="Replaces the plan of your work. At most one step is in_progress at a time.",
        parameters=parameters(
            {
                "explanation": {"type": "string", "description": "Why the plan changed."},
                "plan": {"type": "array", "items": _STEP, "description": "All of the steps."},
            },
            required=("plan",),
        ),
    )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Check the plan."""
        del context
        try:
            read_arguments(call.name, call.arguments, _Plan)
        except BadArguments as error:
            return ToolResult(str(error), success=False)
        return ToolResult("Plan updated")
