"""Permission: from a command that a model wants to run to the bounds it runs in.

Owns asking the host. Invariant: nothing runs outside the sandbox unless the host answered yes
to a question that said so, now or before.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..core.errors import ConfigError
from ..sandbox.approvals import Ask, Command, Escalation, ForPrefix, ForThread, No, NoAndStop, Once
from ..sandbox.verdict import Refuse, Run, Verdict, can_offer_outside, judge_command, was_denied
from .contract import ToolContext, ToolResult
from .executor import Bounds, find_place

__all__ = [
    "Rejected",
    "ask_permission",
    "ask_to_run_outside",
    "escalation",
    "obtain_bounds",
    "was_stopped_by_sandbox",
]

_log = logging.getLogger(__name__)


def escalation(permissions: str, justification: str, prefix: tuple[str, ...]) -> Escalation | None:
    """Return what a model asks for, if it asks for anything."""
    if permissions != "require_escalated":
        return None
    return Escalation(justification, prefix)


class Rejected(Struct, frozen=True):
    """Why something does not run."""

    reason: str
    by_user: bool = False
    stop: bool = False
    """The user also wants the turn to end."""

    def result(self, name: str) -> ToolResult:
        """Return the result of a call of `name`, for the model to read."""
        return ToolResult(f"{name} failed: {self.reason}", success=False, stop=self.stop)


async def ask_permission(command: Command, context: ToolContext) -> Bounds | Rejected:
    """Decide in which bounds `command` may run; ask the host where that is needed."""

    def judge() -> Verdict:
        return judge_command(
            command,
            mode=context.policy.mode,
            approval=context.approval,
            approved=context.approvals.load(context.thread, command.cwd),
            place=find_place(context.executor, Path(command.cwd), context.bounds),
        )

    return await obtain_bounds(await asyncio.to_thread(judge), context)


def was_stopped_by_sandbox(
    exit_code: int | None, output: str, bounds: Bounds, context: ToolContext
) -> bool:
    """Return whether the sandbox stopped a command that the user may be asked to run outside."""
    return (
        exit_code is not None
        and bounds.policy.mode != "danger-full-access"
        and can_offer_outside(context.approval)
        and was_denied(exit_code, output)
    )


async def ask_to_run_outside(command: Command, context: ToolContext) -> Bounds | Rejected:
    """Ask the host whether a command that the sandbox stopped may run again without it."""
    reason = "the sandbox stopped it; it would run again without the sandbox"
    ask = Ask(argv=command.argv, cwd=command.cwd, reason=reason, outside=True)
    return await obtain_bounds(ask, context)


async def obtain_bounds(verdict: Verdict, context: ToolContext) -> Bounds | Rejected:
    """Return the bounds that a verdict gives; ask the host where it says so."""
    match verdict:
        case Run(sandboxed):
            return context.bounds if sandboxed else _unconfined_bounds(context)
        case Refuse(reason):
            return Rejected(reason)
        case Ask():
            return await _ask_host(verdict, context)


def _unconfined_bounds(context: ToolContext) -> Bounds:
    policy = replace(context.policy, mode="danger-full-access")
    return Bounds(policy=policy, workspace=context.cwd)


async def _ask_host(ask: Ask, context: ToolContext) -> Bounds | Rejected:
    decision = await context.ask_approval(ask)
    match decision:
        case No(note):
            return Rejected("rejected by user" + (f": {note}" if note else ""), by_user=True)
        case NoAndStop():
            return Rejected("rejected by user", by_user=True, stop=True)
        case Once() | ForThread() | ForPrefix():
            try:
                await asyncio.to_thread(context.approvals.record, context.thread, ask, decision)
            except ConfigError as error:
                # The user said yes; a failure to store the answer does not change that.
                _log.warning("an approval holds this once only: %s", error)
            return _unconfined_bounds(context) if ask.outside else context.bounds
