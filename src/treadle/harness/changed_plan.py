"""Changed plans: what a call of `update_plan` means to whoever watches.

Invariant: only a call that the tool has accepted changes the plan.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ..tools.dispatch import FinishedCall
from .attempt_facts import UPDATE_PLAN
from .events import PlanUpdated

__all__ = ["changed_plan"]


class _Step(Struct):
    step: str
    status: str


class _Plan(Struct):
    plan: tuple[_Step, ...]
    explanation: str | None = None


_read = msgspec.json.Decoder(_Plan)


def changed_plan(finished: FinishedCall) -> PlanUpdated | None:
    """Return the plan that a finished call has made; None where it made none."""
    call = finished.call
    if call.name != UPDATE_PLAN or call.namespace is not None or not finished.result.success:
        return None
    try:
        plan = _read.decode(call.arguments)
    except msgspec.MsgspecError:
        return None  # a tool of the host's that has the same name
    steps = tuple((each.step, each.status) for each in plan.plan)
    return PlanUpdated(steps=steps, explanation=plan.explanation)
