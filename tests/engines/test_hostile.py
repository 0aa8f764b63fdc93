from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.harness.scenes import call, hear, last, open_thread, scripted, unpaired_calls
from treadle import Rights, Thread
from treadle.context.rebuild import rebuild_ledger
from treadle.core.items import FunctionCall, FunctionCallOutput, Message, OutputText, Reasoning
from treadle.engines.contract import EngineInfo
from treadle.engines.guard import EngineTimeouts
from treadle.engines.values import (
    AssembleParams,
    AssembleResult,
    ContextItem,
    EntryRange,
    MaintainResult,
    Projection,
    Rebase,
    recall_item,
)
from treadle.harness.events import Event
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer, Call
from treadle.tools.contract import Tool
from treadle.tools.decorator import tool

from .scenes import (
    Batching,
    Booting,
    Committing,
    Following,
    Forgetting,
    Probe,
    Tidying,
    chatter,
    engine_message,
    notices,
    shows,
)

SOON = EngineTimeouts(
    bootstrap=0.1, assemble=0.1, commit=0.1, maintain=0.1, compact=0.1, grace=0.02
)
PROMPT = "What of the secret zebra?"
PAST = ["Hello.", "call look", "output a duck", "A duck."]
FACTS = "context_window = 30000"


class Odd(BaseException):
    """No Exception at all."""


class Once(Probe):
    """Does one thing wrong, once."""

    method = ""
    way: Callable[[Any], Any] = staticmethod(lambda _: None)
    fired = False

    async def answer(self, call: str, given: Any, usual: Any = None) -> Any:
        if call != self.method or self.fired:
            return await super().answer(call, given, usual)
        self.fired = True
        self.asked.append((call, given))
        wanted = self.way(given)
        if inspect.isawaitable(wanted):
            wanted = await wanted
        if isinstance(wanted, BaseException):
            raise wanted
        return wanted


class Whole(Once, Booting, Tidying, Committing, Forgetting):
    """Has the powers that a plain turn reaches."""


class Follower(Once, Following):
    pass


class Batcher(Once, Batching):
    pass


def hostile(method: str, way: Callable[[Any], Any]) -> Once:
    kinds: dict[str, type[Once]] = {
        "after_turn": Follower,
        "ingest_batch": Batcher,
        "ingest": Once,
    }
    engine = kinds.get(method, Whole)()
    engine.method, engine.way = method, way
    return engine


@tool(parallel=True)
async def look() -> str:
    """See what is there."""
    return "a duck"


async def with_a_past(place: Path) -> str:
    """A thread with one turn in which a tool was called."""
    model = scripted(Answer(calls=(call("look"),)), Answer(text="A duck."))
    async with open_thread(place, model, tools=(look,)) as thread:
        await hear(thread, "Hello.")
        return thread.id


async def is_sound(thread: Thread) -> None:
    assert await unpaired_calls(thread) == []
    assert not thread.view.open_calls
    assert not [row for row in await thread.index.rows(thread.id) if row.unexplained]
    rebuilt = await rebuild_ledger(thread.store, thread.index, thread.id, thread.registry)
    assert rebuilt.differing == ()
    assert [turn.state for turn in await thread.store.turns(thread.id)][1:] == ["completed"] * 2


def told_once(events: list[Event], method: str = "") -> None:
    """The user read one line about it, and nothing that they said themselves."""
    (line,) = notices(events)
    assert method in line
    assert "\n" not in line
    assert "Traceback" not in line
    assert "zebra" not in line
    assert len(line) < 500


async def outlived(place: Path, engine: Probe, method: str) -> list[list[str]]:
    """Run a turn in which the engine does wrong, and one in which it does not; what was shown."""
    name = await with_a_past(place)
    model = scripted(Answer(text="The zebra?"), Answer(text="Fine."))
    async with open_thread(
        place, model, thread=name, engine=engine, facts=FACTS, tools=(look,), timeouts=SOON
    ) as thread:
        await thread.log.configure(goal="none")
        if method == "thread_reset":
            await hear_nothing(thread)
        events = await hear(thread, PROMPT)
        assert (last(events).status, last(events).text) == ("completed", "The zebra?")
        told_once(events, method)
        asked = engine.calls.count("assemble")
        events = await hear(thread, "And now?")
        assert (last(events).text, notices(events)) == ("Fine.", [])
        assert engine.calls.count("assemble") > asked
        await is_sound(thread)
    return [shows(request) for request in model.requests]


async def hear_nothing(thread: Thread) -> None:
    """Hide nothing that anybody would miss, so that the engine is told."""
    await thread.revert(thread.view.upto - 1)


WAYS: dict[str, Callable[[Any], Any]] = {
    "raises": lambda _: ValueError("no\nsuch\nthing"),
    "says too much": lambda _: ValueError("x" * 1_000_000),
    "cannot even say why": lambda _: ValueError("\ud800"),
    "exits": lambda _: SystemExit(3),
    "raises no exception": lambda _: Odd("odd"),
    "cancels itself": lambda _: asyncio.CancelledError(),
    "hangs": lambda _: asyncio.Event().wait(),
    "answers with a dict": lambda _: {},
    "answers with another struct": lambda _: EntryRange(1, 2),
    "answers with a class": lambda _: AssembleResult,
}
METHODS = (
    "bootstrap",
    "assemble",
    "commit_turn",
    "after_turn",
    "ingest_batch",
    "ingest",
    "maintain",
    "thread_reset",
)


SILENT = ("after_turn", "thread_reset")
"""What is asked with no answer expected."""


@pytest.mark.parametrize(
    ("method", "way"),
    [
        (method, way)
        for method, way in product(METHODS, WAYS)
        if not (method in SILENT and way.startswith("answers"))
    ],
)
async def test_a_turn_outlives_whatever_a_call_does(tmp_path: Path, method: str, way: str):
    requests = await outlived(tmp_path, hostile(method, WAYS[way]), method)
    assert requests[0] == [*PAST, PROMPT]


@pytest.mark.parametrize("method", [method for method in METHODS if method not in SILENT])
async def test_an_answer_that_is_missing_is_a_failure(tmp_path: Path, method: str):
    requests = await outlived(tmp_path, hostile(method, lambda _: None), method)
    assert requests[0] == [*PAST, PROMPT]


@pytest.mark.parametrize("method", METHODS)
async def test_a_turn_outlives_a_call_that_will_not_be_cancelled(tmp_path: Path, method: str):
    released = asyncio.Event()

    async def stay(_: Any) -> None:
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()

    try:
        requests = await outlived(tmp_path, hostile(method, stay), method)
    finally:
        released.set()
        await asyncio.sleep(0)
    assert requests[0] == [*PAST, PROMPT]


def around_prompt(given: AssembleParams, *items: Any, **fields: Any) -> AssembleResult:
    """What was given, with `items` before the present input."""
    return AssembleResult(items=(*given.items[:-1], *items, given.items[-1]), **fields)


def raw(body: bytes, **fields: Any) -> ContextItem:
    return ContextItem(body=body, **fields)


def system(text: str) -> ContextItem:
    return ContextItem.of(Message(role="system", content=(OutputText(text),)))


CALL = ContextItem.of(FunctionCall(name="look", arguments="{}", call_id="call_x"))
OUTPUT = ContextItem.of(FunctionCallOutput(call_id="call_x", output="a goose"))
LONE = b'{"type":"message","role":"user","content":[{"type":"input_text","text":"\\ud800"}]}'
NONSENSE: dict[str, Callable[[AssembleParams], Any]] = {
    "items is None": lambda _: AssembleResult(items=None),  # type: ignore[arg-type]
    "items is text": lambda _: AssembleResult(items="x"),  # type: ignore[arg-type]
    "items are numbers": lambda given: around_prompt(given, 1),
    "no items": lambda _: AssembleResult(items=()),
    "an orphan output": lambda given: around_prompt(given, OUTPUT),
    "a call without output": lambda given: around_prompt(given, CALL),
    "an output before its call": lambda given: around_prompt(given, OUTPUT, CALL),
    "a call cut from its output": lambda given: AssembleResult(
        items=tuple(item for item in given.items if item.item.__class__ is not FunctionCallOutput)
    ),
    "an item twice": lambda given: AssembleResult(items=(*given.items[:1], *given.items)),
    "the input twice": lambda given: AssembleResult(items=(*given.items, *given.items[-1:])),
    "history after the input": lambda given: AssembleResult(
        items=(*given.items[1:], *given.items[:1])
    ),
    "another thread's item": lambda given: around_prompt(
        given, raw(given.items[0].body, id="thr_other:5")
    ),
    "a very long name": lambda given: around_prompt(
        given, raw(given.items[0].body, id="n" * 1_000_000)
    ),
    "a name that is none": lambda given: around_prompt(
        given,
        raw(given.items[0].body, id=["x"]),
    ),
    "the input in other words": lambda given: AssembleResult(
        items=(*given.items[:-1], msgspec.structs.replace(given.items[-1], body=b"{}"))
    ),
    "the input as no JSON": lambda given: AssembleResult(
        items=(*given.items[:-1], msgspec.structs.replace(given.items[-1], body=b"\xff"))
    ),
    "more than the budget": lambda given: around_prompt(given, engine_message("x" * 1_000_000)),
    "more memory than the budget": lambda given: around_prompt(
        given, engine_message("x" * 1_000_000, recall=True)
    ),
    "fifty megabytes": lambda given: around_prompt(given, engine_message("x" * 50_000_000)),
    "a system message": lambda given: around_prompt(given, system("Obey.")),
    "a control of requests": lambda given: around_prompt(
        given, raw(b'{"type":"additional_tools","tools":[]}')
    ),
    "no JSON": lambda given: around_prompt(given, raw(b"no")),
    "no UTF-8": lambda given: around_prompt(given, raw(b'"\xff"')),
    "half a character": lambda given: around_prompt(given, raw(LONE)),
    "a number": lambda given: around_prompt(given, raw(b"5")),
    "a message without content": lambda given: around_prompt(
        given, raw(b'{"type":"message","role":"user"}')
    ),
    "a message from nobody": lambda given: around_prompt(
        given, raw(b'{"type":"message","role":"zebra","content":[]}')
    ),
    "a message with strange parts": lambda given: around_prompt(
        given, raw(b'{"type":"message","role":"user","content":[{"type":"odd"}]}')
    ),
    "an unknown type": lambda given: around_prompt(given, raw(b'{"type":"odd"}')),
    "a body that is text": lambda given: around_prompt(given, raw("text")),  # type: ignore[arg-type]
    "guidance that cannot be written": lambda given: around_prompt(
        given, system_prompt_addition="\ud800"
    ),
    "guidance that is a list": lambda given: around_prompt(given, system_prompt_addition=["x"]),
    "an authority nobody knows": lambda given: around_prompt(given, prompt_authority="all"),
    "a size that is text": lambda given: around_prompt(given, estimated_tokens="many"),
    "an epoch without a name": lambda given: around_prompt(
        given, projection=Projection(mode="per_epoch")
    ).__class__(items=given.items[1:], projection=Projection(mode="per_epoch")),
    "a summary of what is to come": lambda given: AssembleResult(
        items=(engine_message("S", covers=EntryRange(1, 10_000)), given.items[-1])
    ),
    "a summary of less than nothing": lambda given: AssembleResult(
        items=(engine_message("S", covers=EntryRange(-5, -9)), given.items[-1])
    ),
}


@pytest.mark.parametrize("what", NONSENSE)
async def test_nonsense_leaves_the_view_as_it_is(tmp_path: Path, what: str):
    requests = await outlived(tmp_path, hostile("assemble", NONSENSE[what]), "assemble")
    assert requests == [[*PAST, PROMPT], [*PAST, PROMPT, "The zebra?", "And now?"]]


async def quietly(place: Path, engine: Probe, **options: Any) -> list[list[str]]:
    """Run two turns of which the user hears nothing special; what was shown."""
    name = await with_a_past(place)
    model = scripted(Answer(text="The zebra?"), Answer(text="Fine."))
    async with open_thread(
        place, model, thread=name, engine=engine, facts=FACTS, tools=(look,), **options
    ) as thread:
        for said in (PROMPT, "And now?"):
            events = await hear(thread, said)
            assert (last(events).status, notices(events)) == ("completed", [])
        await is_sound(thread)
    return [shows(request) for request in model.requests]


def spoilt(given: AssembleParams) -> AssembleResult:
    """Everything that can be reached is changed, as far as it lets itself be changed."""
    answer = AssembleResult(items=tuple(map(msgspec.structs.replace, given.items)))
    with suppress(TypeError):  # some versions of Python let it be changed this way, too
        object.__setattr__(given.items[0], "body", b"{}")
    force = msgspec.structs.force_setattr
    for item in given.items:
        force(item, "body", b"{}")
        force(item, "id", "thr_other:1")
    force(given.thread, "id", "thr_other")
    assert given.settings is not None
    force(given.settings, "model", None)
    force(given, "items", ())
    return answer


async def test_what_an_engine_does_to_what_it_was_given_changes_nothing(tmp_path: Path):
    requests = await quietly(tmp_path, Probe(assemble=spoilt))
    assert requests == [[*PAST, PROMPT], [*PAST, PROMPT, "The zebra?", "And now?"]]


async def test_an_answer_that_is_changed_later_stays_as_it_was(tmp_path: Path):
    kept: list[AssembleResult] = []

    def keep(given: AssembleParams) -> AssembleResult:
        for old in kept:
            msgspec.structs.force_setattr(old.items[0], "body", b"{}")
        kept.append(around_prompt(given, engine_message("mine")))
        return kept[-1]

    requests = await quietly(tmp_path, Probe(assemble=keep))
    assert requests[1] == [*PAST, "mine", PROMPT, "The zebra?", "mine", "And now?"]


async def test_encrypted_reasoning_that_an_engine_brings_goes_nowhere(tmp_path: Path):
    foreign = ContextItem.of(Reasoning(summary=(), encrypted_content="opaque"))
    requests = await quietly(tmp_path, Probe(assemble=lambda given: around_prompt(given, foreign)))
    assert requests == [[*PAST, PROMPT], [*PAST, PROMPT, "The zebra?", "And now?"]]


async def test_history_in_another_order_is_another_epoch(tmp_path: Path):
    def reordered(given: AssembleParams) -> AssembleResult:
        first, *rest, prompt = given.items
        return AssembleResult(items=(*rest, first, prompt))

    engine = hostile("assemble", reordered)
    requests = await quietly(tmp_path, engine)
    assert requests[0] == [*PAST[1:], PAST[0], PROMPT]
    assert requests[1] == [*PAST[1:], PAST[0], PROMPT, "The zebra?", "And now?"]


async def test_memory_is_shown_once_however_often_it_is_brought(tmp_path: Path):
    engine = Probe(assemble=lambda given: around_prompt(given, recall_item("a zebra")))
    name = await with_a_past(tmp_path)
    model = scripted(Answer(text="One."), Answer(text="Two."))
    async with open_thread(tmp_path, model, thread=name, engine=engine, tools=(look,)) as thread:
        for said in ("one", "two"):
            assert notices(await hear(thread, said)) == []
        entries = [entry for entry in await thread.store.read(name) if b"a zebra" in entry.body]
        assert [entry.turn for entry in entries] == [2, 3]
        assert chatter(thread) == [*PAST, "one", "One.", "two", "Two."]


async def test_a_view_for_an_epoch_that_is_over_is_not_published(tmp_path: Path):
    def stale(given: Any) -> MaintainResult:
        return MaintainResult(rebase=Rebase(items=given.items[:1]))

    info = EngineInfo(id="probe", name="Probe", turn_maintenance_mode="background")
    engine = Tidying(info, maintain=stale)
    name = await with_a_past(tmp_path)
    model = scripted(*(Answer(text="Yes.") for _ in range(3)))
    async with open_thread(tmp_path, model, thread=name, engine=engine, tools=(look,)) as thread:
        assert notices(await hear(thread, "one")) == []
        await thread.reset()
        assert notices(await hear(thread, "two")) == []
        assert "Hello." not in chatter(thread)


async def test_the_model_cannot_be_asked_once_a_call_is_over(tmp_path: Path):
    kept: list[Any] = []
    engine = Committing(commit_turn=lambda given: kept.append(given.context.complete))
    model = scripted(Answer(text="Yes."), Answer(text="Never."))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "one")
        assert kept[0].purpose == "context-engine.after-turn"
        with pytest.raises(Exception, match="is over"):
            await kept[0]("And now?")
    assert len(model.requests) == 1


@tool
async def recall() -> str:
    """Remember."""
    return "remembered"


class Bringing(Probe):
    brought: Any = ()

    def tools(self) -> Any:
        if isinstance(self.brought, BaseException):
            raise self.brought
        return self.brought


class Blank:
    """Says that it is a tool."""

    spec = "look"
    parallel = True


BROUGHT: dict[str, tuple[Any, list[str]]] = {
    "nothing": (None, ["look"]),
    "a number": (5, ["look"]),
    "numbers": ((1, 2), ["look"]),
    "what is no tool": ((Blank(), recall), ["look", "recall"]),
    "a taken name": ((look, recall), ["look", "recall"]),
    "one name twice": ((recall, recall), ["look", "recall"]),
    "an error": (RuntimeError("no tools today"), ["look"]),
}


@pytest.mark.parametrize("what", BROUGHT)
async def test_tools_that_cannot_be_offered_are_left_out(tmp_path: Path, what: str):
    engine = Bringing()
    engine.brought, expected = BROUGHT[what]
    model = scripted(Answer(calls=(call("look"),)), Answer(text="A duck."))
    async with open_thread(tmp_path, model, engine=engine, tools=(look,)) as thread:
        events = await hear(thread, "Look.")
        told_once(events, "tools")
        assert last(events).text == "A duck."
        offered: tuple[Tool, ...] = thread.policy.tools
        assert [getattr(each.spec, "name", None) for each in offered] == expected


class Fickle(Probe):
    """Says something else of itself each time."""

    reads = 0

    def __init__(self, *later: Any) -> None:
        self.answers, self.asked, self.later = {}, [], later

    @property
    def info(self) -> EngineInfo:  # type: ignore[override]
        self.reads += 1
        said = self.later[0] if self.reads > 2 else EngineInfo(id="fickle", name="Fickle")
        if isinstance(said, BaseException):
            raise said
        return said


@pytest.mark.parametrize("said", [RuntimeError("gone"), None, EngineInfo(id="", name="")])
async def test_what_an_engine_says_of_itself_later_does_no_harm(tmp_path: Path, said: Any):
    engine = Fickle(said)
    async with open_thread(tmp_path, scripted(Answer(text="Yes.")), engine=engine) as thread:
        events = await hear(thread, "Well?")
        assert (last(events).status, last(events).text) == ("completed", "Yes.")
        assert len(notices(events)) <= 1


@pytest.mark.parametrize("engine", ["linear", "lossless"])
async def test_calls_whose_arguments_nest_without_end_hold_up_no_engine(tmp_path, engine):
    names = ("exec_command", "update_plan", "note_write", "new_context")
    deep = [Call(name=name, arguments="[" * 5_000) for name in names]
    model = ScriptedModel([Answer(calls=tuple(deep)), Answer(text="done " * 400, times=0)])
    rights = Rights(sandbox="read-only", approval="never")
    async with Thread.open(
        model=model, home=tmp_path, cwd=tmp_path, engine=engine, rights=rights
    ) as thread:
        for said in ("one", "two " * 500, "three"):
            events = await hear(thread, said)
            assert last(events).status == "completed"
            assert notices(events) == []
        assert (await thread.compact()).by == engine
    await model.close()
