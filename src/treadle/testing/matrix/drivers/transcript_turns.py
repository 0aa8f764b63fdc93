"""Drivers of transcript repair in real turns: what models are sent after failures."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from ....core.loopback import LoopbackRequest
from ....core.provenance import InputProvenance
from ....harness.events import Event, ToolStarted, TurnCompleted, TurnStarted
from ....hooks import HookAnswer, Hooks
from ....hooks.payloads import OnTurnStart
from ....models.providers import ProviderConfig
from ....thread.thread import Thread
from ....tools.decorator import tool
from ..fixture import SECRET, MatrixFixture, answers
from .sent_requests import extends, find_words, request_lines
from .transcript_rules import PNG, message_of

__all__ = ["life", "provider"]

Given: TypeAlias = Mapping[str, Any]

_NOTE = "<unanswered_input>"
_MOMENTS: Mapping[str, type[Event]] = {"start": TurnStarted, "call": ToolStarted}
"""The events at which the user interrupts a turn."""


@tool(description="Waits for ever.")
async def wait() -> str:
    """Wait until it is cancelled."""
    await asyncio.Event().wait()
    return "never"


@tool(description="Looks.", replay_safe=True)
async def look(path: str = "") -> str:
    """Return the path."""
    return f"seen {path}".strip()


async def life(given: Given, fixture: MatrixFixture) -> Given:
    """Run turns of which some fail or are interrupted; return what the newest request shows."""
    fixture.play(*answers(given), spare=answers(given, "spare"))
    statuses: list[str] = []
    stays: list[bool] = []
    may_start = asyncio.Event()
    hooks = _waiting_hooks(may_start)
    async with fixture.open_thread(tools=[wait, look], hooks=hooks) as thread:
        kept: list[bytes] = []
        for act in given["acts"]:
            if act.get("interrupt") != "start":
                may_start.set()
            statuses.append(await _act(act, fixture, thread))
            bodies = await _log_items(thread)
            stays.append(bodies[: len(kept)] == kept)
            kept = bodies
    asked = (fixture.spare.requests or fixture.requests)[-1]
    lines = request_lines(asked)
    return {
        "statuses": statuses,
        "shown": find_words(asked, given["look_for"]),
        "notes": sum(text.count(_NOTE) for _, text in lines),
        "paired": _is_paired(asked),
        "results": sum(kind == "function_call_output" for kind, _ in lines),
        "extends": extends(fixture.requests[1:]),
        "bytes": PNG in repr(asked.payload),
        "stays": all(stays),
        "kept": sum(PNG.encode() in body for body in kept),
    }


async def provider(given: Given, fixture: MatrixFixture) -> Given:
    """Run a call with a provider that has rules of its own; return what it was sent."""
    fixture.play(*answers(given))
    name = str(given["model"])
    own = ProviderConfig(base_url=fixture.server.base_url, key=SECRET, retries=0)
    reached = {**fixture.providers, name.partition(":")[0]: own}
    async with fixture.open_thread(model=name, providers=reached, tools=[look]) as thread:
        end = (await fixture.run_turn(thread, "Go on."))[-1]
        stored = [msgspec.json.decode(body) for body in await _log_items(thread)]
    assert isinstance(end, TurnCompleted)
    calls, results = _calls(fixture.requests[-1])
    fits = re.compile(given["fits"])
    return {
        "status": end.status,
        "paired": [call for call, _ in calls] == results,
        "fit": all(fits.fullmatch(call) for call in results),
        "ids": [call for call, _ in calls],
        "arguments": [arguments for _, arguments in calls],
        "stored": [each["call_id"] for each in stored if each["type"] == "function_call"],
        "reasoning": "I think so." in repr(fixture.requests[-1].payload),
    }


def _waiting_hooks(may_start: asyncio.Event) -> Hooks:
    """Return hooks that hold a turn back, once it was admitted, until it may start."""
    hooks = Hooks()

    async def hold(payload: OnTurnStart) -> HookAnswer:
        del payload
        await may_start.wait()
        return HookAnswer()

    hooks.on(OnTurnStart, hold)
    return hooks


async def _act(act: Given, fixture: MatrixFixture, thread: Thread) -> str:
    """Play one turn; how it ended."""
    if "on" in act:
        thread.use(act["on"])
    parts: Sequence[Given] = act.get("parts", ({"text": act.get("say", "")},))
    options: dict[str, Any] = {}
    if act.get("internal"):
        options["provenance"] = InputProvenance(kind="internal_system")
    fixture.was_asked.clear()
    status = ""
    async for event in _turn_events(thread, message_of(parts), act, fixture, options):
        if isinstance(event, _MOMENTS.get(act.get("interrupt", ""), ())):
            thread.interrupt()
        if isinstance(event, TurnCompleted):
            status = event.status
    return status


async def _turn_events(
    thread: Thread, said: Any, act: Given, fixture: MatrixFixture, options: dict[str, Any]
) -> AsyncIterator[Any]:
    """Yield the events of a turn; the user may interrupt it while the model is silent."""

    async def interrupt() -> None:
        await fixture.was_asked.wait()
        thread.interrupt()

    waiting = asyncio.create_task(interrupt()) if act.get("interrupt") == "silence" else None
    try:
        async for event in thread.run(said, **options):
            yield event
    finally:
        if waiting is not None:
            waiting.cancel()


async def _log_items(thread: Thread) -> list[bytes]:
    """Return the items of the log, byte for byte."""
    entries = await thread.store.read(thread.id)
    return [bytes(entry.body) for entry in entries if entry.kind == "item"]


def _is_paired(asked: LoopbackRequest) -> bool:
    """Return whether every call has exactly one output."""
    items = asked.payload["input"]
    calls = [each["call_id"] for each in items if each["type"] == "function_call"]
    results = [each["call_id"] for each in items if each["type"] == "function_call_output"]
    return sorted(calls) == sorted(results) and len(set(calls)) == len(calls)


def _calls(asked: LoopbackRequest) -> tuple[list[tuple[str, Any]], list[str]]:
    """Return the calls with their arguments and the ids of results, in each format."""
    calls: list[tuple[str, Any]] = []
    results: list[str] = []
    for item in asked.payload.get("input", ()):
        if item["type"] == "function_call":
            calls.append((item["call_id"], item["arguments"]))
        elif item["type"] == "function_call_output":
            results.append(item["call_id"])
    for message in asked.payload.get("messages", ()):
        calls += [_chat_call(each) for each in message.get("tool_calls") or ()]
        if message["role"] == "tool":
            results.append(message["tool_call_id"])
        parts = message["content"] if isinstance(message.get("content"), list) else ()
        for part in parts:
            if part["type"] == "tool_use":
                calls.append((part["id"], part["input"]))
            elif part["type"] == "tool_result":
                results.append(part["tool_use_id"])
    return calls, results


def _chat_call(call: Given) -> tuple[str, Any]:
    return call["id"], msgspec.json.decode(call["function"]["arguments"])
