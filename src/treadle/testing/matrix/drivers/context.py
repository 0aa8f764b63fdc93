"""Drivers of context: the life of an engine, in real turns on a harness.

Owns how a row's acts are played and what is seen of them: by the engine, in the log, in
the newest request, and by whoever listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....core.entries import Epoch
from ....core.errors import TreadleError
from ....core.items import FunctionCall, FunctionCallOutput, Item, Message, item_type, text_of
from ....core.loopback import LoopbackRequest
from ....core.provenance import InputProvenance
from ....engines.values import AssembleParams
from ....harness.events import (
    CompactionFinished,
    Event,
    HarnessReported,
    NoticeRaised,
    TurnCompleted,
)
from ....thread.thread import Thread
from ....tools.decorator import tool
from ..fixture import MatrixFixture, answers
from .probe_engine import ProbeEngine, probe_engine

__all__ = ["life"]

_TOLD = ("commit_turn", "after_turn", "ingest_batch", "ingest")


@tool(description="Looks around.", replay_safe=True)
async def look() -> str:
    """There is little to see."""
    return "There it is."


@dataclass(slots=True)
class _Seen:
    """What happened."""

    heard: list[Event] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    compacted: list[str] = field(default_factory=list)
    epochs: list[str] = field(default_factory=list)


async def life(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Play acts on a thread with an engine, after turns without it where there is a past."""
    assert fixture is not None
    fixture.play(*answers(given))
    engine, seen = probe_engine(given.get("engine", {})), _Seen()
    name = await _past(given, fixture)
    for acts in _openings(given["acts"]):
        async with fixture.open_thread(name, engine=engine, tools=[look]) as thread:
            name = thread.id
            thread.observers.append(seen.heard.append)
            for act in acts:
                await _act(act, fixture, thread, seen)
            seen.epochs = await _epochs(thread)
    return {**_by_engine(engine), **_by_host(seen), **_on_the_wire(given, fixture)}


async def _past(given: Mapping[str, Any], fixture: MatrixFixture) -> str | None:
    """A thread that has run turns without the engine; None for a new one."""
    if "before" not in given:
        return None
    async with fixture.open_thread(engine="linear", tools=[look]) as thread:
        for said in given["before"]:
            await fixture.run_turn(thread, said)
        return thread.id


def _openings(acts: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The acts of each time that the thread is open."""
    openings: list[list[Mapping[str, Any]]] = [[]]
    for act in acts:
        if "reopen" in act:
            openings.append([])
        else:
            openings[-1].append(act)
    return openings


async def _act(act: Mapping[str, Any], fixture: MatrixFixture, thread: Thread, seen: _Seen) -> None:
    match act:
        case {"say": said, "interrupt": True}:
            await _interrupt_turn(fixture, thread, said)
        case {"say": said, "from": source}:
            sender = InputProvenance(kind="inter_session", source_tool=source)
            await fixture.run_turn(thread, said, provenance=sender)
        case {"say": said}:
            await fixture.run_turn(thread, said)
        case {"compact": True}:
            try:
                seen.compacted.append((await thread.compact()).by)
            except TreadleError as error:
                seen.errors.append(type(error).__name__)
        case {"rollback": turns}:
            await thread.rollback(turns)
        case _:
            raise ValueError(f"no such act: {act!r}")


async def _interrupt_turn(fixture: MatrixFixture, thread: Thread, said: str) -> None:
    fixture.was_asked.clear()
    running = asyncio.create_task(fixture.run_turn(thread, said))
    await fixture.was_asked.wait()
    thread.interrupt()
    await running


def _by_engine(engine: ProbeEngine) -> dict[str, Any]:
    told = engine.params_of(*_TOLD)
    return {
        "calls": engine.calls,
        "assembled": [_item_lines(each) for each in engine.params_of("assemble")],
        "prompts": [each.prompt for each in engine.params_of("assemble")],
        "counts": [each.pre_prompt_count for each in engine.params_of("assemble")],
        "sound": [_is_complete(each) for each in engine.params_of("assemble")],
        "tools": [sorted(each.available_tools) for each in engine.params_of("assemble")],
        "told": [_item_lines(each) for each in told],
        "outcomes": [_outcomes(each) for each in told],
        "keys": len({each.key for each in engine.params_of("commit_turn")}),
        "from": [_senders(each) for each in told],
        "triggers": [each.trigger for each in engine.params_of("compact")],
        "upkeep": [each.reason for each in engine.params_of("maintain")],
        "one_thread": len({each.thread.id for _, each in engine.requests}) == 1,
        "settings": len({id(each.settings) for _, each in engine.requests}),
        "asks_before": any(map(_can_ask, engine.params_of("bootstrap", "assemble"))),
        "asks_after": bool(told) and all(map(_can_ask, told)),
    }


def _by_host(seen: _Seen) -> dict[str, Any]:
    ends = [event for event in seen.heard if isinstance(event, TurnCompleted)]
    notices = [event.text for event in seen.heard if isinstance(event, NoticeRaised)]
    used = [event for event in seen.heard if isinstance(event, HarnessReported)]
    return {
        "statuses": [end.status for end in ends],
        "texts": [end.text for end in ends],
        "warned": sum("probe" in text for text in notices),
        "leaks": "hunter2" in repr(seen.heard),
        "epochs": seen.epochs,
        "compacted": seen.compacted,
        "folds": [each.by for each in seen.heard if isinstance(each, CompactionFinished)],
        "errors": seen.errors,
        "threads": [f"{event.what}: {event.reason}" for event in used],
    }


def _on_the_wire(given: Mapping[str, Any], fixture: MatrixFixture) -> dict[str, Any]:
    """What the newest request shows of the words that a row looks for."""
    if not fixture.requests or "input" not in fixture.requests[-1].payload:
        return {"requests": len(fixture.requests)}
    lines = _lines(fixture.requests[-1])
    words: Sequence[str] = given.get("look_for", ())
    found = [
        (role, word) for role, text in lines for word in words for _ in range(text.count(word))
    ]
    return {
        "requests": len(fixture.requests),
        "counted": sum(text.count(given.get("count", "\0")) for _, text in lines),
        "shown": [f"{role}: {word}" for role, word in found],
        "extends": _extends(fixture.requests),
        "last": lines[-1][1],
    }


def _lines(request: LoopbackRequest) -> list[tuple[str, str]]:
    """Who says what, the instructions included, in the order in which a model reads it."""
    lines = [("instructions", str(request.payload.get("instructions", "")))]
    for item in request.payload["input"]:
        if item["type"] == "message":
            text = "\n".join(part.get("text", "") for part in item["content"])
            lines.append((item["role"], text))
        else:
            lines.append((item["type"], str(item.get("output", item.get("arguments", "")))))
    return lines


def _extends(requests: Sequence[LoopbackRequest]) -> bool:
    """Whether the newest request begins with all that the one before it said."""
    if len(requests) < 2:
        return False
    former, latter = (each.payload["input"] for each in requests[-2:])
    return bool(latter[: len(former)] == former)


async def _epochs(thread: Thread) -> list[str]:
    """Why the view got other bases, and by whom."""
    found = [each.control for each in await thread.store.read(thread.id) if each.kind == "epoch"]
    return [
        f"{control.reason} by {control.by}"
        for control in found
        if isinstance(control, Epoch) and control.recipe is not None
    ]


def _item_lines(given: Any) -> list[str]:
    items = given.items if hasattr(given, "items") else (given.item,)
    return [_words(each.item) for each in items]


def _outcomes(given: Any) -> list[str]:
    return list(given.outcomes) if hasattr(given, "outcomes") else [given.outcome]


def _senders(given: Any) -> list[str]:
    sources = given.provenance if isinstance(given.provenance, tuple) else (given.provenance,)
    return [each.kind for each in sources if each is not None]


def _is_complete(given: AssembleParams) -> bool:
    """Whether an engine is told all that it decides by."""
    return bool(
        given.settings is not None
        and given.settings.harness
        and given.settings.model.resolved
        and given.token_budget
        and given.model
        and given.citations == "auto"
    )


def _can_ask(given: Any) -> bool:
    """Whether the model may be asked something outside the conversation."""
    return given.context is not None and given.context.complete is not None


def _words(item: Item) -> str:
    match item:
        case Message():
            return f"{item.role}: {text_of(item.content)}"
        case FunctionCall():
            return f"call {item.name}"
        case FunctionCallOutput():
            return f"output {text_of(item.output)}"
        case _:
            return item_type(item)
