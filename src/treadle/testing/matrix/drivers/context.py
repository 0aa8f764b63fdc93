"""Drivers of context: an engine in real turns on a harness.

Owns how the acts of a row are carried out and what is observed: by the engine, in the log,
in the newest request, and by the host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from ....core.entries import Epoch
from ....core.errors import TreadleError
from ....core.ids import new_id
from ....core.items import (
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    encode_item,
    item_type,
    text_of,
)
from ....core.provenance import InputProvenance, InternalEvent
from ....engines.loading import EngineRegistry
from ....engines.values import AssembleParams
from ....harness.events import (
    CompactionFinished,
    Event,
    HarnessReported,
    NoticeRaised,
    TurnCompleted,
)
from ....hooks import HookAnswer, Hooks
from ....hooks.payloads import BeforeCompaction, BeforePromptBuild
from ....prompt.input import user_message
from ....prompt.prompt_context import PromptContext
from ....store.contract import InboxDraft
from ....store.shared_store import index_beside
from ....thread.deletion import delete_thread
from ....thread.thread import Thread
from ....tools.decorator import tool
from ..fixture import SPARE, MatrixFixture, answers
from .probe_engine import ProbeEngine, probe_engine
from .sent_requests import extends, request_lines

__all__ = ["life", "prompt_hook"]

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
    left: list[str] = field(default_factory=list)
    compacted: list[str] = field(default_factory=list)
    epochs: list[str] = field(default_factory=list)


async def life(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Carry out acts on a thread with an engine, after turns without it if the row has some."""
    assert fixture is not None
    fixture.play(*answers(given), spare=answers(given, "spare"))
    fallbacks = [SPARE] if "spare" in given else []
    engine, seen = probe_engine(given.get("engine", {})), _Seen()
    name, hooks = await _past(given, fixture), Hooks()
    if given.get("hooks") == "before_compaction":
        hooks.on(BeforeCompaction, _block)
    for acts in _openings(given["acts"]):
        async with fixture.open_thread(
            name, engine=engine, tools=[look], fallbacks=fallbacks, hooks=hooks
        ) as thread:
            name = thread.id
            thread.observers.append(seen.events.append)
            for act in acts:
                if "delete" not in act:
                    await _act(act, fixture, thread, seen)
            seen.epochs = await _epochs(thread)
        if any("delete" in act for act in acts):
            seen.left = await _delete(name, engine, fixture)
    return {**_by_engine(engine), **_by_host(seen), **_on_the_wire(given, fixture)}


async def prompt_hook(given: Mapping[str, Any], fixture: MatrixFixture | None) -> Mapping[str, Any]:
    """Run turns with a hook before each prompt; return what it reads, by the words of the row."""
    assert fixture is not None
    fixture.play(*answers(given))
    read: list[BeforePromptBuild] = []

    async def look_at(payload: BeforePromptBuild) -> None:
        read.append(payload)

    hooks = Hooks()
    hooks.on(BeforePromptBuild, look_at)
    demands = PromptContext(cwd="", developer_instructions=given["demands"])
    engine = probe_engine(given.get("engine", {}))
    async with fixture.open_thread(engine=engine, hooks=hooks, settings=demands) as thread:
        for said in given["said"]:
            await fixture.run_turn(thread, said)
    return {
        "prompts": [each.prompt for each in read],
        "instructions": [
            [word for word in given["words"] if word in each.instructions] for each in read
        ],
    }


async def _block(payload: BeforeCompaction) -> HookAnswer:
    del payload
    return HookAnswer(block="not on Sundays")


async def _delete(thread: str, engine: ProbeEngine, fixture: MatrixFixture) -> list[str]:
    """Delete a thread whose engine is the one of the row; return what is left of it."""
    registry = EngineRegistry()
    registry.register("probe", lambda _: engine)
    async with fixture.open_store() as store:
        index = index_beside(store, fixture.home)
        try:
            return await delete_thread(thread, store, index, home=fixture.home, engines=registry)
        finally:
            await index.close()


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
            events = [_event(each) for each in act.get("events", ())]
            await fixture.run_turn(thread, text, provenance=sender, events=events)
        case {"mail": texts}:
            for text in texts:
                body = Raw(encode_item(user_message(text)))
                await thread.store.post(
                    thread.id, InboxDraft(key=new_id("post"), kind="input", body=body)
                )
            await fixture.run_turn(thread)
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


def _event(source: str) -> InternalEvent:
    return InternalEvent(source=source, child_thread="thr_1", task="count", status="ok")


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
        "senders": [_kinds(each) for each in engine.params_of("assemble")],
        "events": [_event_sources(each) for each in engine.params_of("assemble")],
        "persists": [list(each.persist) for each in engine.params_of("assemble")],
        "kept": [list(each.persist) for each in turns_given if hasattr(each, "persist")],
        "counts": [each.pre_prompt_count for each in engine.params_of("assemble")],
        "sound": [_is_complete(each) for each in engine.params_of("assemble")],
        "tools": [sorted(each.available_tools) for each in engine.params_of("assemble")],
        "told": [_item_lines(each) for each in turns_given],
        "outcomes": [_outcomes(each) for each in turns_given],
        "keys": len({each.key for each in engine.params_of("commit_turn")}),
        "from": [_senders(each) for each in turns_given],
        "answered": [_answering(each) for each in turns_given],
        "triggers": [each.trigger for each in engine.params_of("compact")],
        "resets": [f"{each.reason} from {each.first}" for each in engine.params_of("thread_reset")],
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
        "left": seen.left,
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
        "cache_keys": len({each.payload.get("prompt_cache_key") for each in fixture.requests}),
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
    sources = given.provenance if isinstance(given.provenance, Sequence) else (given.provenance,)
    return [each.kind for each in sources if each is not None]


def _answering(given: Any) -> str:
    """Return how an engine is told who answered: the mode, the models and the reason."""
    settings = given.settings
    model, why = settings.model, settings.diagnostics.fallback_reason or "-"
    return f"{settings.mode}: {model.requested} by {model.resolved}, {why}"


def _kinds(given: AssembleParams) -> list[str]:
    """Return who wrote each item; empty where nobody said."""
    return ["" if each is None else each.kind for each in given.provenance]


def _event_sources(given: AssembleParams) -> list[str]:
    """Return what made each item; empty for what no event made."""
    return [",".join(event.source for event in each or ()) for each in given.internal_events]


def _is_complete(given: AssembleParams) -> bool:
    """Return whether an engine is given all the facts that it needs to decide."""
    return bool(
        given.settings is not None
        and given.settings.harness
        and given.settings.model.resolved
        and given.settings.limits.max_output_tokens
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
