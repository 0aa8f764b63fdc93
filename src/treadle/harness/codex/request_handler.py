"""The requests of Codex during a turn: tool calls, approvals and questions.

Owns passing them on to Treadle's tools and to the host. Invariants: a call of a Treadle
tool uses the same hooks, sandbox and approvals as in Treadle's own loop, and its result is
durable before Codex gets it; a command or a patch of Codex runs only if the host approves
it.
"""

from __future__ import annotations

import asyncio
import shlex
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
from msgspec import Raw

from ...core.items import CustomToolCall, FunctionCall, FunctionCallOutput, InputImage, Output
from ...core.specs import CustomTool, Namespace
from ...sandbox.approvals import Ask, Decision, ForPrefix, ForThread, No, NoAndStop, Once
from ...tools.contract import AnswerOption, CallItem, Tool, ToolCall, UserQuestion
from ...tools.dispatch import Dispatch, FinishedCall, call_of, tools_by_name
from ..attempt_facts import AttemptFacts
from ..contract import CALL, TurnRun
from ..event_stream import call_finished
from ..events import ToolStarted
from .mirror import LOG_ERRORS
from .protocol.server_requests import (
    AcceptWithRule,
    ApprovalDecision,
    ApprovalReply,
    ClientReply,
    CommandApprovalRequest,
    ElicitationReply,
    ElicitationRequest,
    ExecPolicyRule,
    FileChangeApprovalRequest,
    PermissionsReply,
    PermissionsRequest,
    ServerRequest,
    ToolCallReply,
    ToolCallRequest,
    ToolImagePart,
    ToolTextPart,
    UserInputAnswer,
    UserInputQuestion,
    UserInputReply,
    UserInputRequest,
)
from .start_requests import FREEFORM_INPUT
from .steering import Steering

__all__ = ["RequestHandler", "ToolRunner"]


_CallKey: TypeAlias = tuple[int, str, str | None, str, bytes]
"""A call of an answer: the step, its id, its namespace, its tool and its arguments."""


@dataclass(slots=True)
class ToolRunner:
    """Runs the calls of Treadle's tools in one turn."""

    run: TurnRun
    facts: AttemptFacts
    before_reply: Callable[[], Awaitable[None]]
    """Called while Codex still waits for a result."""
    stop: Callable[[], Awaitable[None]]
    """Called if a result ends the turn."""
    repeats: Counter[str] = field(default_factory=Counter)
    """How often Codex made a call again that runs or has run, by its id."""
    _replies: dict[_CallKey, asyncio.Future[ToolCallReply]] = field(default_factory=dict)
    _dispatch: Dispatch = field(init=False)
    _waiting: dict[int, asyncio.Future[FinishedCall]] = field(init=False, default_factory=dict)
    _collecting: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self._dispatch = Dispatch(
            tools_by_name(self.run.tools), self.run.context(self.run.log.step), self.run.hooks
        )
        self._collecting = asyncio.create_task(self._collect(), name="codex tool results")

    async def run_call(self, request: ToolCallRequest) -> ToolCallReply:
        """Run a call of Codex's model; one that an answer contains twice runs once."""
        which = request.call_id, request.namespace, request.tool, bytes(request.arguments)
        key = self.run.log.step, *which
        if (earlier := self._replies.get(key)) is not None:
            self.repeats[request.call_id] += 1
            return await asyncio.shield(earlier)
        told = self._replies[key] = asyncio.get_running_loop().create_future()
        try:
            reply = await self._run(request)
            told.set_result(reply)
        finally:
            told.cancel()  # which does nothing to one that has its result
        return reply

    async def _run(self, request: ToolCallRequest) -> ToolCallReply:
        item = self._call_item(request)
        call = call_of(item)
        self.run.emit(ToolStarted(call_id=call.call_id, name=call.name, arguments=call.arguments))
        self.facts.add_call(call.name, call.namespace)
        CALL.set(call)
        done: asyncio.Future[FinishedCall] = asyncio.get_running_loop().create_future()
        self._waiting[self._dispatch.submit(item)] = done
        finished = await done
        result = finished.result
        self.facts.add_result(result)
        if self._is_logged(call.call_id):
            # If the log cannot be written, Codex still has the result and sends it back.
            with suppress(*LOG_ERRORS):
                # For Codex, and so for the log, every tool of Treadle's is a function.
                output = FunctionCallOutput(call_id=call.call_id, output=result.output)
                await self.run.log.stage_output(output)
        self.run.emit(call_finished(finished))
        await (self.stop if result.stop else self.before_reply)()
        return ToolCallReply(
            content_items=tuple(_reply_parts(result.output)), success=result.success
        )

    async def abort(self) -> None:
        """End all running calls, and accept no more."""
        await self._dispatch.abort()
        await asyncio.wait([self._collecting])

    async def _collect(self) -> None:
        async for finished in self._dispatch.results():
            done = self._waiting.pop(finished.position)
            if not done.done():
                done.set_result(finished)

    def _call_item(self, request: ToolCallRequest) -> CallItem:
        if (request.namespace, request.tool) in set(_freeform_names(self.run.tools)):
            return CustomToolCall(
                call_id=request.call_id,
                name=request.tool,
                namespace=request.namespace,
                input=_freeform_input(request.arguments),
            )
        return FunctionCall(
            call_id=request.call_id,
            name=request.tool,
            namespace=request.namespace,
            arguments=bytes(request.arguments).decode(),
        )

    def _is_logged(self, call_id: str) -> bool:
        """Say whether the call is in the log; calls from a script of the model are not."""
        return any(row.shape.call_id == call_id for row in self.run.log.view.open_calls)


def _freeform_names(tools: Sequence[Tool]) -> Iterator[tuple[str | None, str]]:
    for spec in (tool.spec for tool in tools):
        if isinstance(spec, CustomTool):
            yield None, spec.name
        elif isinstance(spec, Namespace):
            yield from (
                (spec.name, each.name) for each in spec.tools if isinstance(each, CustomTool)
            )


def _freeform_input(arguments: Raw) -> str:
    decoded = msgspec.json.decode(arguments)
    text = decoded.get(FREEFORM_INPUT, "") if isinstance(decoded, dict) else decoded
    return text if isinstance(text, str) else msgspec.json.encode(text).decode()


def _reply_parts(output: Output) -> Iterator[ToolTextPart | ToolImagePart]:
    if isinstance(output, str):
        yield ToolTextPart(text=output)
        return
    for part in output:
        if isinstance(part, InputImage):
            yield ToolImagePart(image_url=part.image_url)
        elif text := getattr(part, "text", ""):
            yield ToolTextPart(text=text)


@dataclass(slots=True)
class RequestHandler:
    """Answers the requests of Codex in one turn."""

    run: TurnRun
    tool_runner: ToolRunner
    steering: Steering
    patches: Mapping[str, tuple[str, ...]]
    """The paths of the patches that have started, by call."""

    async def handle(self, request: ServerRequest) -> ClientReply:
        """Answer a request."""
        match request:
            case ToolCallRequest():
                return await self.tool_runner.run_call(request)
            case CommandApprovalRequest():
                decision = await self._ask_host(request.item_id, _command_approval(request))
                return ApprovalReply(decision=_command_decision(decision))
            case FileChangeApprovalRequest():
                paths = self.patches.get(request.item_id, ())
                decision = await self._ask_host(request.item_id, _patch_approval(request, paths))
                return ApprovalReply(decision=_approval_decision(decision))
            case PermissionsRequest():
                return await self._ask_permissions(request)
            case UserInputRequest():
                return await self._ask_questions(request)
            case ElicitationRequest():
                # MCP servers of the user's own Codex cannot reach the host.
                return ElicitationReply(action="decline")

    async def _ask_host(self, call_id: str, approval: Ask) -> Decision:
        CALL.set(_waiting_call(call_id, approval.argv[0]))
        decision = await self.run.context(self.run.log.step).ask_approval(approval)
        if isinstance(decision, No) and decision.note:
            # Codex has no field for a reason, so it is sent as a message of the user.
            await self.steering.post(decision.note)
        return decision

    async def _ask_permissions(self, request: PermissionsRequest) -> PermissionsReply:
        reason = request.reason or "the model asks for more permissions"
        wanted = bytes(request.permissions).decode()
        approval = Ask(argv=("permissions", wanted), cwd=request.cwd, reason=reason, outside=True)
        decision = await self._ask_host(request.item_id, approval)
        if isinstance(decision, NoAndStop):
            await self.tool_runner.stop()
        granted = isinstance(decision, Once | ForThread | ForPrefix)
        lasting = isinstance(decision, ForThread | ForPrefix)
        return PermissionsReply(
            permissions=request.permissions if granted else Raw(b"{}"),
            scope="session" if lasting else "turn",
        )

    async def _ask_questions(self, request: UserInputRequest) -> UserInputReply:
        consult = self.run.context(self.run.log.step).ask_questions
        CALL.set(_waiting_call(request.item_id, "request_user_input"))
        given = await consult(tuple(map(_user_question, request.questions))) if consult else None
        return UserInputReply(
            answers={
                name: UserInputAnswer(answers=tuple(texts)) for name, texts in (given or {}).items()
            }
        )


def _waiting_call(call_id: str, name: str) -> ToolCall:
    """Return the call that waits for the host; if the run ends, it is answered as withdrawn."""
    item = FunctionCall(call_id=call_id, name=name, arguments="{}")
    return ToolCall(call_id=call_id, name=name, item=item)


def _command_approval(request: CommandApprovalRequest) -> Ask:
    try:
        argv = tuple(shlex.split(request.command or "")) or ("a command",)
    except ValueError:
        argv = (request.command or "",)
    return Ask(
        argv=argv,
        cwd=request.cwd or "",
        reason=request.reason or f"`{request.command}` requires approval by policy",
        outside=True,
        prefix=request.proposed_execpolicy_amendment,
    )


def _patch_approval(request: FileChangeApprovalRequest, paths: tuple[str, ...]) -> Ask:
    root = (request.grant_root,) if request.grant_root else ()
    return Ask(
        argv=("apply_patch", *paths, *root),
        cwd="",
        reason=request.reason or "the patch requires approval",
        outside=bool(root),
    )


def _command_decision(decision: Decision) -> ApprovalDecision | AcceptWithRule:
    if isinstance(decision, ForPrefix):
        return AcceptWithRule(ExecPolicyRule(decision.prefix))
    return _approval_decision(decision)


def _approval_decision(decision: Decision) -> ApprovalDecision:
    match decision:
        case Once():
            return "accept"
        case ForThread() | ForPrefix():
            return "acceptForSession"
        case NoAndStop():
            return "cancel"
        case _:
            return "decline"


def _user_question(question: UserInputQuestion) -> UserQuestion:
    return UserQuestion(
        id=question.id,
        header=question.header,
        question=question.question,
        options=tuple(
            AnswerOption(each.label, each.description) for each in question.options or ()
        ),
    )
