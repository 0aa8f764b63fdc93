"""Permission: from a wish to run something to the bounds it runs in.

Owns the conversation with the host. Invariant: nothing runs outside the sandbox
unless the host answered a question that said so, or a remembered answer did.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec
from msgspec import Struct

from ..core.errors import ConfigError
from ..sandbox.approvals import (
    Ask,
    Command,
    Escalation,
    ForPrefix,
    ForThread,
    No,
    NoAndStop,
    Once,
    Refuse,
    Run,
    Verdict,
    decide,
    may_offer_outside,
    was_denied,
)
from .contract import ToolContext, ToolResult
from .executor import Bounds

__all__ = [
    "ESCALATION",
    "Rejected",
    "escalation",
    "let_out",
    "permitted",
    "settled",
    "stopped_by_sandbox",
]

_log = logging.getLogger(__name__)

ESCALATION: dict[str, dict[str, object]] = {
    "sandbox_permissions": {
        "type": "string",
        "enum": ["use_default", "require_escalated"],
        "description": "Use require_escalated to ask the user to run this outside the sandbox; "
        "the default is use_default.",
    },
    "justification": {
        "type": "string",
        "description": "Only with require_escalated: one question to the user that says what the "
        "command is needed for.",
    },
    "prefix_rule": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Only with require_escalated: the first words of the command, if commands "
        'that begin so could be approved for good, for example ["npm", "install"].',
    },
}
"""The parameters a model asks for more permission with."""


def escalation(permissions: str, justification: str, prefix: tuple[str, ...]) -> Escalation | None:
    """What a model asks for, if it asks for anything."""
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
        """What the model reads as the result of a call of `name`."""
        return ToolResult(f"{name} failed: {self.reason}", success=False, stop=self.stop)


async def permitted(command: Command, context: ToolContext) -> Bounds | Rejected:
    """The bounds that `command` may run in."""

    def decided() -> Verdict:
        return decide(
            command,
            mode=context.policy.mode,
            approval=context.approval,
            remembered=context.approvals.remembered(context.thread),
        )

    return await settled(await asyncio.to_thread(decided), context)


def stopped_by_sandbox(
    exit_code: int | None, output: str, bounds: Bounds, context: ToolContext
) -> bool:
    """Whether a command failed for the sandbox's sake and the user may be asked to let it out."""
    return (
        exit_code is not None
        and bounds.policy.mode != "danger-full-access"
        and may_offer_outside(context.approval)
        and was_denied(exit_code, output)
    )


async def let_out(command: Command, context: ToolContext) -> Bounds | Rejected:
    """Ask whether a command that the sandbox stopped may run again without it."""
    import shlex

    line = shlex.join(command.argv)
    reason = f"the sandbox stopped `{line}`; running it again without the sandbox requires approval"
    ask = Ask(argv=command.argv, cwd=command.cwd, reason=reason, outside=True)
    return await settled(ask, context)


async def settled(verdict: Verdict, context: ToolContext) -> Bounds | Rejected:
    """What a verdict comes to, once the host has answered."""
    match verdict:
        case Run(sandboxed):
            return context.bounds if sandboxed else _outside(context)
        case Refuse(reason):
            return Rejected(reason)
        case Ask():
            return await _asked(verdict, context)


def _outside(context: ToolContext) -> Bounds:
    policy = msgspec.structs.replace(context.policy, mode="danger-full-access")
    return Bounds(policy=policy, workspace=context.cwd)


async def _asked(ask: Ask, context: ToolContext) -> Bounds | Rejected:
    decision = await context.ask(ask)
    match decision:
        case No(note):
            return Rejected("rejected by user" + (f": {note}" if note else ""), by_user=True)
        case NoAndStop():
            return Rejected("rejected by user", by_user=True, stop=True)
        case Once() | ForThread() | ForPrefix():
            try:
                await asyncio.to_thread(context.approvals.record, context.thread, ask, decision)
            except ConfigError as error:
                # The user said yes; that it cannot be remembered is no reason to say no.
                _log.warning("an approval holds this once only: %s", error)
            return _outside(context) if ask.outside else context.bounds
