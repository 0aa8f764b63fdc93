"""Drivers of tools and hooks: real calls in real turns, and the rules behind them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct

from ....core.errors import ConfigError
from ....core.loopback import LoopbackRequest
from ....core.specs import spec_name
from ....core.typed import convert
from ....core.wire import json_bytes
from ....harness.events import EvidenceFound, QuestionsAsked, ToolFinished, TurnCompleted
from ....hooks import CommandHook, HookAnswer, Hooks
from ....hooks.configured_hooks import events_by_name
from ....hooks.hooks import matches
from ....hooks.payloads import RULES, AfterToolCall, BeforeToolCall, Payload, ToolResultReady
from ....subagents import AgentLimits
from ....tools.call import with_hooks
from ....tools.contract import Media, Recipient, SentMessage, Tool, ToolResult
from ....tools.decorator import tool
from ..fixture import SECRET, MatrixFixture, answers
from .sent_requests import outputs

__all__ = ["agents", "call", "invalid_timeouts", "matching", "own_call", "question", "rules"]

Given: TypeAlias = Mapping[str, Any]

_MESSAGE = SentMessage(
    target=Recipient(channel="mail", to="eve", thread="7"),
    text="hi there",
    media=("https://example.com/a.png",),
    message_id="m-1",
)
_VOICE = Media(url="https://example.com/reply.opus", as_voice=True)


_STARTS_AGENT = r'"name": ?"spawn_agent"|### `spawn_agent`'
"""How the tool that starts an agent is declared, to a model or to its scripts."""


class _Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a row wants of a hook."""

    event: str = "before_tool_call"
    name: str = ""
    tools: tuple[str, ...] = ()
    priority: int = 0
    timeout: float | None = None
    times: int = 1
    """How often it is registered."""
    block: str | None = None
    parameters: dict[str, Any] | None = None
    output: str | None = None
    raises: str = ""
    hangs: bool = False
    command: tuple[str, ...] = ()
    """A program to run in its place."""


@dataclass(slots=True)
class _Recorder:
    """Hooks that do what the row says, and a record of what they and the tools got."""

    hooks: Hooks = field(default_factory=Hooks)
    order: list[str] = field(default_factory=list)
    payloads: list[Payload] = field(default_factory=list)
    ran: list[dict[str, str]] = field(default_factory=list)

    def add(self, part: _Part) -> None:
        """Register a hook, or a program for one."""
        event = events_by_name()[part.event]
        common = part.event != str(event.__struct_config__.tag)
        hook = CommandHook(part.command, common=common) if part.command else self._hook(part)
        for _ in range(part.times):
            self.hooks.on(
                event, hook, tools=part.tools, priority=part.priority, timeout=part.timeout
            )

    def of(self, kind: type) -> list[Any]:
        """Return the payloads of one kind of hook."""
        return [payload for payload in self.payloads if isinstance(payload, kind)]

    def _hook(self, part: _Part) -> Callable[[Payload], Any]:
        async def hook(payload: Payload) -> HookAnswer:
            self.order.append(part.name or part.event)
            self.payloads.append(payload)
            if part.hangs:
                await asyncio.Event().wait()
            if part.raises:
                raise RuntimeError(part.raises)
            given = part.parameters
            raw = UNSET if given is None else {k: Raw(json_bytes(v)) for k, v in given.items()}
            return HookAnswer(block=part.block, parameters=raw, output=part.output)

        return hook


async def call(given: Given, fixture: MatrixFixture) -> Given:
    """A call of a tool among hooks; what the tool, the hooks, the host and the model get."""
    recorder = _Recorder()
    for part in convert(given.get("hooks", ()), tuple[_Part, ...]):
        recorder.add(part)
    made = _TOOLS[given.get("tool", "run")](recorder, given)
    for _ in range(given.get("wrapped", 0)):
        made = with_hooks(made, recorder.hooks)
    asked = {"name": spec_name(made.spec), "arguments": given.get("arguments", {})}
    fixture.play({"calls": [asked]}, *(answers(given) or [{"text": "Done."}]))
    async with fixture.open_thread(tools=[made], hooks=recorder.hooks) as thread:
        events = await fixture.run_turn(thread, "Go on.")
    end = events[-1]
    assert isinstance(end, TurnCompleted)
    found = [event for event in events if isinstance(event, EvidenceFound)]
    return {
        "status": end.status,
        "text": end.text,
        "ran": recorder.ran,
        "heard": recorder.order,
        "before": [_json(each.arguments) for each in recorder.of(BeforeToolCall)],
        "results": [_result(each) for each in recorder.of(ToolResultReady)],
        "after": [_after(each) for each in recorder.of(AfterToolCall)],
        "same_call": len({(each.thread, each.turn, each.call_id) for each in _calls(recorder)})
        == 1,
        "finished": [_finished_line(event) for event in events if isinstance(event, ToolFinished)],
        "model_reads": _read(fixture.requests[-1]),
        "sent": [msgspec.to_builtins(each) for event in found for each in event.sent],
        "media": [msgspec.to_builtins(each) for event in found for each in event.media],
        "leaks": SECRET in repr(events),
    }


async def own_call(given: Given, fixture: MatrixFixture) -> Given:
    """A call of a tool that the harness brings, among hooks; what it did, and who heard of it."""
    recorder = _Recorder()
    for part in convert(given.get("hooks", ()), tuple[_Part, ...]):
        recorder.add(part)
    fixture.play({"calls": [given["call"]]}, {"text": "Done."})
    place = fixture.make_directory()
    async with fixture.open_thread(hooks=recorder.hooks, cwd=place) as thread:
        events = await fixture.run_turn(thread, "Go on.")
    end = events[-1]
    assert isinstance(end, TurnCompleted)
    said = outputs(fixture.requests[-1])[-1]
    reasons = [part.get("block") or part.get("output") for part in given["hooks"]]
    ended = recorder.of(AfterToolCall)
    return {
        "status": end.status,
        "text": end.text,
        "files": sorted(each.name for each in place.iterdir()),
        "heard": recorder.order,
        "before": [_json(each.arguments) for each in recorder.of(BeforeToolCall)],
        "after": [_after(each) for each in ended],
        "statuses": [f"{each.tool} {each.status}" for each in ended],
        "finished": [
            f"{event.name} {event.success}" for event in events if isinstance(event, ToolFinished)
        ],
        "reads": any(reason in said for reason in reasons if reason),
    }


async def question(given: Given, fixture: MatrixFixture) -> Given:
    """A question of the model; what the host is asked, and whether the model reads the answer."""
    arguments = {"questions": given["questions"]}
    fixture.play(
        {"calls": [{"name": "request_user_input", "arguments": arguments}]}, {"text": "Done."}
    )
    asked: list[str] = []
    status = ""
    async with fixture.open_thread() as thread:
        async for event in thread.run("Go on."):
            if isinstance(event, QuestionsAsked):
                asked += [each.question for each in event.questions]
                given_answers: dict[str, tuple[str, ...]] = {
                    each.id: (given["answer"],) for each in event.questions
                }
                thread.answer(event.id, given_answers)
            if isinstance(event, TurnCompleted):
                status = event.status
    said = outputs(fixture.requests[-1])[-1]
    return {"status": status, "asked": asked, "reads": given["answer"] in said}


async def agents(given: Given, fixture: MatrixFixture) -> Given:
    """A turn; how often the model is offered to start an agent."""
    fixture.play({"text": "Done."})
    limits = AgentLimits() if given["agents"] else None
    async with fixture.open_thread(model=given["model"], agents=limits) as thread:
        end = (await fixture.run_turn(thread, "Go on."))[-1]
    assert isinstance(end, TurnCompleted)
    body = fixture.requests[-1].body.decode()
    return {"status": end.status, "offers": len(re.findall(_STARTS_AGENT, body))}


async def matching(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return which tools a hook with these patterns is for."""
    del fixture
    return {"for": [name for name in given["tools"] if matches(name, given["patterns"])]}


async def rules(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return how long hooks of an event may take, and whether a failure blocks."""
    del fixture
    found = [RULES[events_by_name()[name]] for name in given["events"]]
    return {
        "seconds": [rule.seconds for rule in found],
        "closed": [rule.closed for rule in found],
        "together": [rule.together for rule in found],
    }


async def invalid_timeouts(given: Given, fixture: MatrixFixture | None) -> Given:
    """Return the errors for timeouts that no hook can have."""
    del fixture
    errors: list[str] = []
    for seconds in given["timeouts"]:
        try:
            _Recorder().add(_Part(timeout=seconds))
        except ConfigError as error:
            errors.append(str(error))
        else:
            errors.append("")
    return {"errors": errors}


def _run(recorder: _Recorder, given: Given) -> Tool:
    @tool(description="Runs it.")
    async def run(command: str, mode: str = "wild") -> str:
        recorder.order.append("run")
        recorder.ran.append({"command": command, "mode": mode})
        if error := given.get("error"):
            raise RuntimeError(error)
        return f"ran {command}"

    return run


def _message(recorder: _Recorder, given: Given) -> Tool:
    del given

    @tool(description="Sends it.")
    async def message(text: str) -> ToolResult:
        recorder.ran.append({"text": text})
        return ToolResult(f"sent {text}", sent=(_MESSAGE,))

    return message


def _speak(recorder: _Recorder, given: Given) -> Tool:
    del recorder, given

    @tool(description="Speaks.")
    async def speak() -> ToolResult:
        return ToolResult("spoken", media=(_VOICE,))

    return speak


_TOOLS: dict[str, Callable[[_Recorder, Given], Tool]] = {
    "run": _run,
    "message": _message,
    "speak": _speak,
}


def _json(arguments: str) -> Any:
    """Return decoded arguments, or the text if it is not JSON."""
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments


def _calls(recorder: _Recorder) -> list[Any]:
    return recorder.of(BeforeToolCall) + recorder.of(ToolResultReady) + recorder.of(AfterToolCall)


def _read(asked: LoopbackRequest) -> list[str]:
    """Return what the model reads of the call; nothing in other formats."""
    return outputs(asked)[-1:] if "input" in asked.payload else []


def _finished_line(event: ToolFinished) -> str:
    return f"{event.success}: {event.output}"


def _result(payload: ToolResultReady) -> dict[str, Any]:
    return {
        "arguments": _json(payload.arguments),
        "output": payload.output,
        "success": payload.success,
    }


def _after(payload: AfterToolCall) -> dict[str, Any]:
    """Return what hooks are told after a call, without empty values."""
    seen = {
        "arguments": _json(payload.arguments),
        "output": payload.output,
        "status": payload.status,
        "error": payload.error,
        "denied_reason": payload.denied_reason,
    }
    return {name: value for name, value in seen.items() if value}
