"""Drivers of context: an engine in real turns on a harness.

Owns how the acts of a row are carried out and what is observed: by the engine, in the log,
in the newest request, and by the host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....core.entries import Epoch
from ....core.errors import TreadleError
from ....core.items import FunctionCall, FunctionCallOutput, Item, Message, item_type, text_of
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
from .sent_requests import extends, request_lines

__all__ = ["life"]

_TURN_CALLS = ("commit_turn", "after_turn", "ingest_batch", "ingest")


@tool(description="Looks around.", replay_safe=True)
async def look() -> str:
    """There is little to see."""
    return "There it is."


@dataclass(slots=True)
class _Seen:
    """What the host observed."""

    events: list[Event] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    compacted: list[str] = field(default_factory=list)
    epochs: list[str] = field(default_factory=list)


async def life(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Carry out acts on a thread with an engine, after turns without it if the row has some."""
    assert fixture is not None
    fixture.play(*answers(given))
    engine, seen = probe_engine(given.get("engine", {})), _Seen()
    name = await _past(given, fixture)
    for acts in _openings(given["acts"]):
        async with fixture.open_thread(name, engine=engine, tools=[look]) as thread:
            name = thread.id
            thread.observers.append(seen.events.append)
            for act in acts:
                await _act(act, fixture, thread, seen)
            seen.epochs = await _epochs(thread)
    return {**_by_engine(engine), **_by_host(seen), **_on_the_wire(given, fixture)}


async def _past(given: Mapping[str, Any], fixture: MatrixFixture) -> str | None:
    """Run turns without the engine and return the thread; None for a new one."""
    if "before" not in given:
        return None
    async with fixture.open_thread(engine="linear", tools=[look]) as thread:
        for text in given["before"]:
            await fixture.run_turn(thread, text)
        return thread.id


def _openings(acts: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return the acts of each time that the thread is open."""
    openings: list[list[Mapping[str, Any]]] = [[]]
    for act in acts:
        if "reopen" in act:
            openings.append([])
        else:
            openings[-1].append(act)
    return openings


async def _act(act: Mapping[str, Any], fixture: MatrixFixture, thread: Thread, seen: _Seen) -> None:
    match act:
        case {"say": text, "interrupt": True}:
            await _interrupt_turn(fixture, thread, text)
        case {"say": text, "from": source}:
            sender = InputProvenance(kind="inter_session", source_tool=source)
            await fixture.run_turn(thread, text, provenance=sender)
        case {"say": text}:
            await fixture.run_turn(thread, text)
        case {"compact": True}:
            try:
                seen.compacted.append((await thread.compact()).by)
            except TreadleError as error:
                seen.errors.append(type(error).__name__)
        case {"rollback": turns}:
            await thread.rollback(turns)
        case _:
            raise ValueError(f"no such act: {act!r}")


async def _interrupt_turn(fixture: MatrixFixture, thread: Thread, text: str) -> None:
    fixture.was_asked.clear()
    running = asyncio.create_task(fixture.run_turn(thread, text))
    await fixture.was_asked.wait()
    thread.interrupt()
    await running


def _by_engine(engine: ProbeEngine) -> dict[str, Any]:
    turns_given = engine.params_of(*_TURN_CALLS)
    return {
        "calls": engine.calls,
        "assembled": [_item_lines(each) for each in engine.params_of("assemble")],
        "prompts": [each.prompt for each in engine.params_of("assemble")],
        "counts": [each.pre_prompt_count for each in engine.params_of("assemble")],
        "sound": [_is_complete(each) for each in engine.params_of("assemble")],
        "tools": [sorted(each.available_tools) for each in engine.params_of("assemble")],
        "told": [_item_lines(each) for each in turns_given],
        "outcomes": [_outcomes(each) for each in turns_given],
        "keys": len({each.key for each in engine.params_of("commit_turn")}),
        "from": [_senders(each) for each in turns_given],
        "triggers": [each.trigger for each in engine.params_of("compact")],
        "upkeep": [each.reason for each in engine.params_of("maintain")],
        "one_thread": len({each.thread.id for _, each in engine.requests}) == 1,
        "settings": len({id(each.settings) for _, each in engine.requests}),
        "asks_before": any(map(_can_ask, engine.params_of("bootstrap", "assemble"))),
        "asks_after": bool(turns_given) and all(map(_can_ask, turns_given)),
    }


def _by_host(seen: _Seen) -> dict[str, Any]:
    ends = [event for event in seen.events if isinstance(event, TurnCompleted)]
    notices = [event.text for event in seen.events if isinstance(event, NoticeRaised)]
    used = [event for event in seen.events if isinstance(event, HarnessReported)]
    return {
        "statuses": [end.status for end in ends],
        "texts": [end.text for end in ends],
        "warned": sum("probe" in text for text in notices),
        "leaks": "hunter2" in repr(seen.events),
        "epochs": seen.epochs,
        "compacted": seen.compacted,
        "folds": [each.by for each in seen.events if isinstance(each, CompactionFinished)],
        "errors": seen.errors,
        "threads": [f"{event.what}: {event.reason}" for event in used],
    }


def _on_the_wire(given: Mapping[str, Any], fixture: MatrixFixture) -> dict[str, Any]:
    """Return which of the row's words the newest request shows."""
    if not fixture.requests or "input" not in fixture.requests[-1].payload:
        return {"requests": len(fixture.requests)}
    lines = request_lines(fixture.requests[-1])
    words: Sequence[str] = given.get("look_for", ())
    found = [
        (role, word) for role, text in lines for word in words for _ in range(text.count(word))
    ]
    return {
        "requests": len(fixture.requests),
        "counted": sum(text.count(given.get("count", "\0")) for _, text in lines),
        "shown": [f"{role}: {word}" for role, word in found],
        "extends": len(fixture.requests) > 1 and extends(fixture.requests[-2:]),
        "last": lines[-1][1],
    }


async def _epochs(thread: Thread) -> list[str]:
    """Return the reasons and authors of new bases of the view."""
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
    """Return whether an engine is given all the facts that it needs to decide."""
    return bool(
        given.settings is not None
        and given.settings.harness
        and given.settings.model.resolved
        and given.token_budget
        and given.model
        and given.citations == "auto"
    )


def _can_ask(given: Any) -> bool:
    """Return whether the engine may ask the model outside the conversation."""
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
