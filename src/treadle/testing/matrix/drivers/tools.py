"""Drivers of tools and hooks: real calls in real turns, and the rules behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct

from ....core.errors import ConfigError
from ....core.loopback import LoopbackRequest
from ....core.specs import spec_name
from ....core.wire import json_bytes
from ....harness.events import EvidenceFound, ToolFinished, TurnCompleted
from ....hooks import CommandHook, HookAnswer, Hooks
from ....hooks.configured_hooks import events_by_name
from ....hooks.hooks import matches
from ....hooks.payloads import RULES, AfterToolCall, BeforeToolCall, Payload, ToolResultReady
from ....tools.call import with_hooks
from ....tools.contract import Media, Recipient, SentMessage, Tool, ToolResult
from ....tools.decorator import tool
from ..fixture import SECRET, MatrixFixture, answers
from .sent_requests import outputs

__all__ = ["call", "invalid_timeouts", "matching", "rules"]

Given: TypeAlias = Mapping[str, Any]

_MESSAGE = SentMessage(
    target=Recipient(channel="mail", to="eve", thread="7"),
    text="hi there",
    media=("https://example.com/a.png",),
    message_id="m-1",
)
_VOICE = Media(url="https://example.com/reply.opus", as_voice=True)


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
class _Notebook:
    """Hooks that do their part, and what they, and the tools, were given."""

    hooks: Hooks = field(default_factory=Hooks)
    heard: list[str] = field(default_factory=list)
    told: list[Payload] = field(default_factory=list)
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
        """What hooks of one kind were told."""
        return [payload for payload in self.told if isinstance(payload, kind)]

    def _hook(self, part: _Part) -> Callable[[Payload], Any]:
        async def hook(payload: Payload) -> HookAnswer:
            self.heard.append(part.name or part.event)
            self.told.append(payload)
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
    notes = _Notebook()
    for part in msgspec.convert(given.get("hooks", ()), tuple[_Part, ...]):
        notes.add(part)
    made = _TOOLS[given.get("tool", "run")](notes, given)
    for _ in range(given.get("wrapped", 0)):
        made = with_hooks(made, notes.hooks)
    asked = {"name": spec_name(made.spec), "arguments": given.get("arguments", {})}
    fixture.play({"calls": [asked]}, *(answers(given) or [{"text": "Done."}]))
    async with fixture.open_thread(tools=[made], hooks=notes.hooks) as thread:
        events = await fixture.run_turn(thread, "Go on.")
    end = events[-1]
    assert isinstance(end, TurnCompleted)
    found = [event for event in events if isinstance(event, EvidenceFound)]
    return {
        "status": end.status,
        "text": end.text,
        "ran": notes.ran,
        "heard": notes.heard,
        "before": [_json(each.arguments) for each in notes.of(BeforeToolCall)],
        "results": [_result(each) for each in notes.of(ToolResultReady)],
        "after": [_after(each) for each in notes.of(AfterToolCall)],
        "same_call": len({(each.thread, each.turn, each.call_id) for each in _calls(notes)}) == 1,
        "finished": [_finished_line(event) for event in events if isinstance(event, ToolFinished)],
        "model_reads": _read(fixture.requests[-1]),
        "sent": [msgspec.to_builtins(each) for event in found for each in event.sent],
        "media": [msgspec.to_builtins(each) for event in found for each in event.media],
        "leaks": SECRET in repr(events),
    }


async def matching(given: Given, fixture: MatrixFixture | None) -> Given:
    """Which tools a hook with these patterns is for."""
    del fixture
    return {"for": [name for name in given["tools"] if matches(name, given["patterns"])]}


async def rules(given: Given, fixture: MatrixFixture | None) -> Given:
    """How long hooks of an event may take, and whether one that fails has said no."""
    del fixture
    found = [RULES[events_by_name()[name]] for name in given["events"]]
    return {
        "seconds": [rule.seconds for rule in found],
        "closed": [rule.closed for rule in found],
        "together": [rule.together for rule in found],
    }


async def invalid_timeouts(given: Given, fixture: MatrixFixture | None) -> Given:
    """What is said to times that no hook can have."""
    del fixture
    errors: list[str] = []
    for seconds in given["timeouts"]:
        try:
            _Notebook().add(_Part(timeout=seconds))
        except ConfigError as error:
            errors.append(str(error))
        else:
            errors.append("")
    return {"errors": errors}


def _run(notes: _Notebook, given: Given) -> Tool:
    @tool(description="Runs it.")
    async def run(command: str, mode: str = "wild") -> str:
        notes.heard.append("run")
        notes.ran.append({"command": command, "mode": mode})
        if error := given.get("error"):
            raise RuntimeError(error)
        return f"ran {command}"

    return run


def _message(notes: _Notebook, given: Given) -> Tool:
    del given

    @tool(description="Sends it.")
    async def message(text: str) -> ToolResult:
        notes.ran.append({"text": text})
        return ToolResult(f"sent {text}", sent=(_MESSAGE,))

    return message


def _speak(notes: _Notebook, given: Given) -> Tool:
    del notes, given

    @tool(description="Speaks.")
    async def speak() -> ToolResult:
        return ToolResult("spoken", media=(_VOICE,))

    return speak


_TOOLS: dict[str, Callable[[_Notebook, Given], Tool]] = {
    "run": _run,
    "message": _message,
    "speak": _speak,
}


def _json(arguments: str) -> Any:
    """Arguments as values; as they are where they are no JSON."""
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments


def _calls(notes: _Notebook) -> list[Any]:
    return notes.of(BeforeToolCall) + notes.of(ToolResultReady) + notes.of(AfterToolCall)


def _read(asked: LoopbackRequest) -> list[str]:
    """What the model reads of the call; nothing where its format is another one."""
    return outputs(asked)[-1:] if "input" in asked.payload else []


def _finished_line(event: ToolFinished) -> str:
    return f"{event.success}: {event.output}"


def _result(told: ToolResultReady) -> dict[str, Any]:
    return {"arguments": _json(told.arguments), "output": told.output, "success": told.success}


def _after(told: AfterToolCall) -> dict[str, Any]:
    """What is told after a call, without what is left as usual."""
    seen = {
        "arguments": _json(told.arguments),
        "output": told.output,
        "status": told.status,
        "error": told.error,
        "denied_reason": told.denied_reason,
    }
    return {name: value for name, value in seen.items() if value}
