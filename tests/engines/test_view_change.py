from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.context.scenes import Scene, answer, scene
from tests.engines.scenes import Probe, engine_message, notices
from tests.harness.scenes import call, hear, open_thread, scripted
from tests.strategies import context_changes
from treadle.context.rules import Pairing
from treadle.context.view import View, load_view
from treadle.core.items import FunctionCall, FunctionCallOutput, InputText, Message
from treadle.engines.contract import EngineInfo
from treadle.engines.conversation import conversation_fields, named_rows
from treadle.engines.values import (
    AssembleParams,
    AssembleResult,
    ContextItem,
    EntryRange,
    recall_item,
)
from treadle.engines.view_change import InvalidEngineOutput, added_drafts, publish, view_change
from treadle.harness.events import StepStarted
from treadle.prompt.registry import default_registry
from treadle.prompt.state_fragment import Baseline, Known
from treadle.testing.script import Answer
from treadle.thread.thread import Thread
from treadle.tools.decorator import tool

WORDS = st.sampled_from(["rain", "snow", "hail", "fog"])


def offered(view: View) -> Sequence[ContextItem]:
    """The conversation of a view as an engine gets it."""
    return conversation_fields(named_rows(view.thread, view.rows).items())["items"]


def conversation(view: View) -> list[bytes]:
    return [row.body for row in view.rows if not row.contextual]


def asked(items: Sequence[ContextItem]) -> list[bytes]:
    return [item.body for item in items if not item.recall]


@st.composite
def own(draw: st.DrawFn, upto: int, place: int) -> tuple[ContextItem, ...]:
    """Something that an engine writes itself, often nothing."""
    kind = draw(st.sampled_from(["", "", "", "message", "summary", "pair", "memory"]))
    text = f"{draw(WORDS)} {upto}.{place}"
    if kind == "message":
        return (engine_message(text),)
    if kind == "memory":
        return (recall_item(text),)
    if kind == "summary":
        first = draw(st.integers(1, upto))
        return (engine_message(text, covers=EntryRange(first, draw(st.integers(first, upto)))),)
    if kind == "pair":
        name = f"own {text}"
        return (
            ContextItem.of(FunctionCall(name="recall", arguments="{}", call_id=name)),
            ContextItem.of(FunctionCallOutput(call_id=name, output=text)),
        )
    return ()


@st.composite
def plans(draw: st.DrawFn, items: Sequence[ContextItem], upto: int) -> tuple[ContextItem, ...]:
    """A legal view: some of the items in their order, pairs whole, and more between them."""
    upto = max(upto, 1)
    kept: dict[str, bool] = {}
    result: list[ContextItem] = []
    for place, item in enumerate(items):
        pair = str(getattr(item.item, "call_id", None) or item.id)
        if kept.setdefault(pair, draw(st.booleans())):
            result += [*draw(own(upto, place)), draw(changed(item))]
    result += draw(own(upto, len(items)))
    return tuple(result or [engine_message("nothing of it")])


@st.composite
def changed(draw: st.DrawFn, item: ContextItem) -> ContextItem:
    """An item as it was, or now and then a message in other words."""
    message = item.item
    if not isinstance(message, Message) or draw(st.integers(0, 4)):
        return item
    content = (InputText(draw(WORDS)),) if message.role == "user" else message.content
    other = msgspec.structs.replace(message, content=content)
    return msgspec.structs.replace(item, body=ContextItem.of(other).body)


async def apply(thread: Thread, items: tuple[ContextItem, ...]) -> None:
    """Show `items`, as the runtime does it between two requests."""
    view = thread.view
    change = view_change(view, items, default_registry())
    if change.head is None:
        await thread.log.add(*added_drafts(change.after, thread.log.turn, thread.log.step))
    else:
        await publish(thread.log, items, by="probe", epoch=view.epoch, upto=view.upto)


async def lives(found: Scene, data: st.DataObject) -> None:
    """A few turns, with tools and with a context that changes."""
    for _ in range(data.draw(st.integers(1, 3))):
        found.change(**data.draw(context_changes))
        number = len(found.ledger)
        await found.say(f"turn {number}")
        if data.draw(st.booleans()):
            await found.call_tool(number)
        await found.step(answer(f"answer {number}"))
        await found.thread.log.turns.finish()


def states(view: View) -> dict[str, Baseline]:
    """What the model knows of states; one that was taken back is as good as never told."""
    return {
        name: known
        for name, known in view.baselines.items()
        if not (isinstance(known, Known) and bytes(known.snapshot) == b"null")
    }


def faults(view: View) -> int:
    pairing = Pairing()
    orphans = sum(not pairing.admits(row.shape, at) for at, row in enumerate(view.rows))
    return orphans + len(pairing.open)


@given(st.data())
def test_a_view_shows_what_was_asked_for_and_the_states_stay(data):
    async def run() -> None:
        async with scene() as found:
            thread = found.thread
            for _ in range(2):
                await lives(found, data)
                known = states(thread.view)
                items = data.draw(plans(offered(thread.view), thread.view.upto))
                await apply(thread, items)
                assert conversation(thread.view) == asked(items)
                memory = {item.body for item in items if item.recall}
                assert memory <= {row.body for row in thread.view.rows if row.contextual}
                assert states(thread.view) == known
                assert faults(thread.view) == 0
                again = await load_view(thread.store, thread.id, thread.registry)
                assert again.rows == thread.view.rows
            # The guard of prefixes looks at this request.
            await found.turn("and now?")

    asyncio.run(run())


async def test_a_state_that_rides_on_a_kept_message_does_not_come_back_with_it():
    async with scene() as found:
        thread = found.thread
        await found.turn("one")
        found.change(shell="zsh")
        await found.turn("two")
        found.change(cwd="/elsewhere")
        await found.turn("three")
        known = states(thread.view)
        items = tuple(item for item in offered(thread.view) if b"two" in item.body)
        await apply(thread, items)
        assert conversation(thread.view) == asked(items)
        assert states(thread.view) == known


@given(st.data())
def test_what_extends_a_view_begins_no_epoch_and_anything_else_does(data):
    async def run() -> None:
        async with scene() as found:
            thread = found.thread
            await lives(found, data)
            items = data.draw(plans(offered(thread.view), thread.view.upto))
            before, epoch = conversation(thread.view), thread.view.epoch
            rows = list(thread.view.rows)
            await apply(thread, items)
            extends = asked(items)[: len(before)] == before and not any(
                item.covers for item in items
            )
            if thread.view.epoch == epoch:
                assert extends
                assert thread.view.rows[: len(rows)] == rows
            else:
                assert thread.view.reason == "publish"

    asyncio.run(run())


ILLEGAL: dict[str, Any] = {
    "nothing": lambda _: (),
    "one twice": lambda items: (*items, items[0]),
    "another thread's": lambda items: (
        msgspec.structs.replace(items[0], id="thr_other:1"),
        *items[1:],
    ),
    "an output alone": lambda items: tuple(
        item for item in items if not isinstance(item.item, FunctionCall)
    ),
    "a call alone": lambda items: tuple(
        item for item in items if not isinstance(item.item, FunctionCallOutput)
    ),
    "a call behind its output": lambda items: tuple(reversed(items)),
    "a system message": lambda items: (
        *items,
        ContextItem.of(Message(role="system", content=(InputText("Obey."),))),
    ),
    "what cannot be read": lambda items: (*items, ContextItem(body=b"{")),
    "a summary of what is to come": lambda items: (
        engine_message("later", covers=EntryRange(1, 10_000)),
        *items,
    ),
}


@pytest.mark.parametrize("spoil", ILLEGAL.values(), ids=ILLEGAL)
@given(data=st.data())
@settings(max_examples=10)
def test_an_illegal_view_is_refused_and_changes_nothing(spoil, data):
    async def run() -> None:
        async with scene() as found:
            thread = found.thread
            await lives(found, data)
            await found.say("look")
            await found.call_tool("last")
            items = spoil(offered(thread.view))
            before = await thread.store.read(thread.id)
            rows, epoch = list(thread.view.rows), thread.view.epoch
            with pytest.raises(InvalidEngineOutput):
                await publish(thread.log, items, by="probe", epoch=epoch, upto=thread.view.upto)
            assert await thread.store.read(thread.id) == before
            assert (thread.view.rows, thread.view.epoch) == (rows, epoch)

    asyncio.run(run())


@tool(parallel=True)
async def look() -> str:
    """Looks."""
    return "seen"


class Drawing(Probe):
    """Asks for any legal view, around the present input and between two steps."""

    def __init__(self, data: st.DataObject, info: EngineInfo) -> None:
        super().__init__(info, assemble=self.plan)
        self.data = data
        self.wanted: tuple[ContextItem, ...] = ()

    def plan(self, given: AssembleParams) -> AssembleResult:
        count = given.pre_prompt_count or 0
        # The input stays as it is; what came before it and after it may be anything legal.
        before, now, after = given.items[:count], given.items[count], given.items[count + 1 :]
        upto = max((item.seq or 0 for item in given.items), default=0)
        history = self.data.draw(plans(before, upto)) if before else ()
        tail: tuple[ContextItem, ...] = ()
        if given.prompt is not None:
            tail = (engine_message("Mind that."),) if self.data.draw(st.booleans()) else ()
        elif after:
            tail = self.data.draw(plans(after, upto))
        self.wanted = (*history, now, *tail)
        return AssembleResult(items=self.wanted)


@pytest.mark.parametrize("owns", [False, True], ids=["at the start", "at every step"])
@given(data=st.data())
@settings(max_examples=10)
def test_a_request_shows_what_an_engine_asked_for_around_the_input(owns, data):
    async def run(place: Path) -> None:
        engine = Drawing(data, EngineInfo(id="probe", name="Probe", owns_compaction=owns))
        looks, says = Answer(calls=(call("look"),)), Answer(times=0, text="Noted.")
        model = scripted(Answer(text="Yes."), looks, says)

        pairs: list[tuple[list[bytes], list[bytes]]] = []

        def compares(event: Any) -> None:
            if isinstance(event, StepStarted) and (owns or event.step == 1):
                pairs.append((conversation(thread.view), asked(engine.wanted)))

        async with open_thread(place, model, tools=(look,), engine=engine) as thread:
            thread.observers.append(compares)
            for text in ("one", "look", "two"):
                heard = await hear(thread, text)
                assert notices(heard) == []
                assert faults(thread.view) == 0
        assert [shown for shown, _ in pairs] == [wanted for _, wanted in pairs]
        assert len(pairs) == (4 if owns else 3)

    with TemporaryDirectory() as place:
        asyncio.run(run(Path(place)))
