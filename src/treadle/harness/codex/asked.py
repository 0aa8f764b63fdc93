"""What Codex asks in the middle of a turn, and who answers.

Owns the way from its approvals and questions to the host's, and back. Invariant: a
command or a patch of Codex's own goes ahead only if the host says so, in the words that
Codex has for it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Raw

from ...core.items import FunctionCall
from ...sandbox.approvals import Ask as Approval
from ...sandbox.approvals import Decision, ForPrefix, ForThread, No, NoAndStop, Once
from ...tools.contract import Choice, UserQuestion
from ...tools.contract import ToolCall as Call
from ..contract import CALL, TurnRun
from .protocol import asks
from .protocol.asks import ClientReply, ServerRequest
from .steering import Steering
from .tools import ToolRunner

__all__ = ["RequestHandler"]


@dataclass(slots=True)
class RequestHandler:
    """Answers for one turn."""

    run: TurnRun
    tool_runner: ToolRunner
    steering: Steering
    patches: Mapping[str, tuple[str, ...]]
    """The paths of the patches that were begun, by call."""

    async def handle(self, ask: ServerRequest) -> ClientReply:
        """Answer what Codex asks."""
        match ask:
            case asks.ToolCallRequest():
                return await self.tool_runner.run_call(ask)
            case asks.CommandApprovalRequest():
                return asks.ApprovalReply(
                    decision=_command_decided(await self._asks(ask, _command(ask)))
                )
            case asks.FileChangeApprovalRequest():
                paths = self.patches.get(ask.item_id, ())
                return asks.ApprovalReply(
                    decision=_decided(await self._asks(ask, _patch(ask, paths)))
                )
            case asks.PermissionsRequest():
                return await self._permissions(ask)
            case asks.UserInputRequest():
                return await self._questions(ask)
            case asks.ElicitationRequest():
                # Servers of the user's own Codex have no way to our host.
                return asks.ElicitationReply(action="decline")

    async def _asks(
        self,
        ask: asks.CommandApprovalRequest | asks.FileChangeApprovalRequest | asks.PermissionsRequest,
        approval: Approval,
    ) -> Decision:
        CALL.set(_call(ask.item_id, approval.argv[0]))
        decision = await self.run.context(self.run.log.step).ask(approval)
        if isinstance(decision, No) and decision.note:
            # Codex has no place for a reason: it is said as what it is, a word of the user's.
            await self.steering.post(decision.note)
        return decision

    async def _permissions(self, ask: asks.PermissionsRequest) -> ClientReply:
        reason = ask.reason or "the model asks for more permissions"
        wanted = bytes(ask.permissions).decode()
        approval = Approval(argv=("permissions", wanted), cwd=ask.cwd, reason=reason, outside=True)
        decision = await self._asks(ask, approval)
        if isinstance(decision, NoAndStop):
            await self.tool_runner.stop()
        granted = isinstance(decision, Once | ForThread | ForPrefix)
        lasting = isinstance(decision, ForThread | ForPrefix)
        return asks.PermissionsReply(
            permissions=ask.permissions if granted else Raw(b"{}"),
            scope="session" if lasting else "turn",
        )

    async def _questions(self, ask: asks.UserInputRequest) -> ClientReply:
        consult = self.run.context(self.run.log.step).consult
        CALL.set(_call(ask.item_id, "request_user_input"))
        given = await consult(tuple(map(_question, ask.questions))) if consult else None
        return asks.UserInputReply(
            answers={
                name: asks.UserInputAnswer(answers=tuple(words))
                for name, words in (given or {}).items()
            }
        )


def _call(call_id: str, name: str) -> Call:
    """The call that waits; a run that ends meanwhile leaves it answered as withdrawn."""
    item = FunctionCall(call_id=call_id, name=name, arguments="{}")
    return Call(call_id=call_id, name=name, item=item)


def _command(ask: asks.CommandApprovalRequest) -> Approval:
    try:
        argv = tuple(shlex.split(ask.command or "")) or ("a command",)
    except ValueError:
        argv = (ask.command or "",)
    return Approval(
        argv=argv,
        cwd=ask.cwd or "",
        reason=ask.reason or f"`{ask.command}` requires approval by policy",
        outside=True,
        prefix=ask.proposed_execpolicy_amendment,
    )


def _patch(ask: asks.FileChangeApprovalRequest, paths: tuple[str, ...]) -> Approval:
    root = (ask.grant_root,) if ask.grant_root else ()
    return Approval(
        argv=("apply_patch", *paths, *root),
        cwd="",
        reason=ask.reason or "the patch requires approval",
        outside=bool(root),
    )


def _command_decided(decision: Decision) -> asks.ApprovalDecision | asks.AcceptWithRule:
    if isinstance(decision, ForPrefix):
        return asks.AcceptWithRule(asks.ExecPolicyRule(decision.prefix))
    return _decided(decision)


def _decided(decision: Decision) -> asks.ApprovalDecision:
    match decision:
        case Once():
            return "accept"
        case ForThread() | ForPrefix():
            return "acceptForSession"
        case NoAndStop():
            return "cancel"
        case _:
            return "decline"


def _question(question: asks.UserInputQuestion) -> UserQuestion:
    return UserQuestion(
        id=question.id,
        header=question.header,
        question=question.question,
        options=tuple(Choice(each.label, each.description) for each in question.options or ()),
    )
