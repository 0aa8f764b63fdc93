"""The contract of a harness: turns, what breaks them, and what is left behind."""
# ruff: noqa: D102 - a test's name is its sentence

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from msgspec import Raw

from ...core.entries import Entry
from ...core.items import Message, decode_item
from ...core.usage import TokenUsage
from ...core.wire import json_bytes
from ...engines.contract import CAPABILITIES
from ...harness.contract import Harness, Traits
from ...harness.events import (
    Event,
    ItemCompleted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    UsageReported,
)
from ...harness.offers import HarnessOffer
from ...hooks import Hooks
from ...hooks.payloads import BeforeToolCall, HookAnswer
from ...thread.thread import Thread
from ..script import Answer, Break, ScriptedError, Tokens
from .harness_fixture import (
    MODEL,
    Gate,
    HarnessFixture,
    call_answer,
    log_lines,
    open_harness_fixture,
    turn_end,
    unpaired_calls,
)

__all__ = ["HarnessTurns", "OpenFixture", "collect_events"]

OpenFixture = Callable[..., AbstractAsyncContextManager[HarnessFixture]]

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"stripes": {"type": "integer"}},
    "required": ["stripes"],
    "additionalProperties": False,
}


class HarnessTurns(ABC):
    """What every harness must do in a turn."""

    model: ClassVar[str] = MODEL
    """The model of the threads; its provider is the test's own server."""

    @abstractmethod
    def factory(self, offer: HarnessOffer) -> Harness:
        """Make the harness."""

    @pytest.fixture
    def open_fixture(self, tmp_path: Path) -> OpenFixture:
        """Return a function that opens a fixture with a model that gives some answers."""

        def open_answers(*answers: Answer) -> AbstractAsyncContextManager[HarnessFixture]:
            return open_harness_fixture(tmp_path, self.factory, self.model, *answers)

        return open_answers

    async def test_it_says_who_it_is_and_what_it_can_do(self, open_fixture: OpenFixture) -> None:
        async with open_fixture() as fixture:
            harness = fixture.harness
            assert harness.name == harness.name.strip().lower() != ""
            assert harness.capabilities <= CAPABILITIES
            assert isinstance(harness.traits, Traits)
            async with fixture.open_thread() as thread:
                registry = thread.registry
                known = {each.id for each in registry.fragments}
                known |= {state.id for state in registry.states}
            assert harness.traits.fragments <= known

    async def test_every_item_is_in_the_log_and_told(self, open_fixture: OpenFixture) -> None:
        async with (
            open_fixture(call_answer("look"), Answer(text="It has stripes.")) as fixture,
            fixture.open_thread() as thread,
        ):
            events = await collect_events(thread.run("A zebra, please."))
            assert turn_end(events).text == "It has stripes."
            assert await log_lines(thread) == [
                "user: A zebra, please.",
                "call look",
                "output There it is.",
                "assistant: It has stripes.",
            ]
            events_seen = [event for event in events if isinstance(event, ItemCompleted)]
            entries = {entry.seq: entry for entry in await thread.store.read(thread.id)}
            assert [event.seq for event in events_seen] == sorted(
                event.seq for event in events_seen
            )
            assert all(bytes(event.item) == entries[event.seq].body for event in events_seen)
            made = [entry.seq for entry in entries.values() if _is_made(entry)]
            assert [event.seq for event in events_seen if event.seq in made] == made

    async def test_a_turn_begins_once_and_ends_once_around_everything_else(
        self, open_fixture: OpenFixture
    ) -> None:
        async with (
            open_fixture(call_answer("look"), Answer(text="Done.")) as fixture,
            fixture.open_thread() as thread,
        ):
            events: list[Event] = []
            thread.observers.append(events.append)
            await collect_events(thread.run("Go."))
            turn = await thread.store.turn(thread.id, 1)
            (begun,) = [event for event in events if isinstance(event, TurnStarted)]
            assert (begun.thread, begun.turn, begun.number) == (thread.id, turn.id, 1)
            assert (begun.harness, begun.model) == (fixture.harness.name, self.model)
            assert (turn_end(events).turn, turn.state) == (turn.id, "completed")
            between = [type(event) for event in events[1:-1]]
            assert events[0] == begun
            assert between.index(ToolStarted) < between.index(ToolFinished)

    async def test_each_of_several_calls_has_one_result(self, open_fixture: OpenFixture) -> None:
        async with (
            open_fixture(call_answer("look", times=3), Answer(text="Done.")) as fixture,
            fixture.open_thread() as thread,
        ):
            events = await collect_events(thread.run("Look three times."))
            assert turn_end(events).status == "completed"
            assert (await log_lines(thread)).count("output There it is.") == 3
            assert await unpaired_calls(thread) == []
            finished = [event.call_id for event in events if isinstance(event, ToolFinished)]
            assert len(set(finished)) == len(finished) == 3

    async def test_nothing_is_said_or_offered_twice(self, open_fixture: OpenFixture) -> None:
        async with (
            open_fixture(Answer(text="Done.")) as fixture,
            fixture.open_thread(tools=None) as thread,
        ):
            await collect_events(thread.run("Go."))
            (request,) = fixture.requests
            assert request.body.count(b"<environment_context>") == 1
            assert request.body.count(b"Go.") == 1
            names = [tool.get("name") for tool in request.payload["tools"] if tool.get("name")]
            assert len(names) == len(set(names)) > 0

    async def test_a_hook_can_forbid_a_call(self, open_fixture: OpenFixture) -> None:
        async def refuse(payload: BeforeToolCall) -> HookAnswer:
            assert payload.tool == "look"
            return HookAnswer(block="not while the zebra sleeps")

        hooks = Hooks()
        hooks.on(BeforeToolCall, refuse)
        async with (
            open_fixture(call_answer("look"), Answer(text="Then not.")) as fixture,
            fixture.open_thread(hooks=hooks) as thread,
        ):
            assert turn_end(await collect_events(thread.run("Go."))).status == "completed"
            outputs = [line for line in await log_lines(thread) if line.startswith("output")]
            assert ["not while the zebra sleeps" in line for line in outputs] == [True]

    async def test_an_interrupt_in_a_call_leaves_a_legal_log(
        self, open_fixture: OpenFixture
    ) -> None:
        gate = Gate()
        async with (
            open_fixture(call_answer("gate"), Answer(text="Going on.")) as fixture,
            fixture.open_thread(tools=[gate.tool]) as thread,
        ):
            turn = asyncio.create_task(collect_events(thread.run("Wait.")))
            await gate.entered.wait()
            thread.interrupt()
            await _check_aborted(fixture, thread, await turn)

    async def test_an_interrupt_in_an_answer_leaves_a_legal_log(
        self, open_fixture: OpenFixture
    ) -> None:
        answer = Answer(text="Once upon a time there was a zebra.", stall=Break(events=5))
        async with (
            open_fixture(answer, Answer(text="Going on.")) as fixture,
            fixture.open_thread() as thread,
        ):
            events: list[Event] = []
            async for event in thread.run("Tell me."):
                events.append(event)
                if isinstance(event, TextDelta):
                    thread.interrupt()
            await _check_aborted(fixture, thread, events)

    async def test_a_failing_model_fails_the_turn_and_not_the_thread(
        self, open_fixture: OpenFixture
    ) -> None:
        failure = Answer(error=ScriptedError(status=400, code="invalid", message="that was wrong"))
        async with (
            open_fixture(failure, Answer(text="Going on.")) as fixture,
            fixture.open_thread() as thread,
        ):
            end = turn_end(await collect_events(thread.run("Go.")))
            assert end.status == "failed"
            assert end.error is not None
            assert "that was wrong" in end.error
            assert (await thread.store.turn(thread.id, 1)).state == "failed"
            assert turn_end(await collect_events(thread.run("And now?"))).text == "Going on."
            asked = [line for line in await log_lines(thread) if line.startswith("user: ")]
            assert asked == ["user: Go.", "user: And now?"]

    async def test_what_is_said_to_a_turn_reaches_the_model(
        self, open_fixture: OpenFixture
    ) -> None:
        gate = Gate()
        minded = Answer(when="Mind the stripes.", text="Minded.")
        async with (
            open_fixture(call_answer("gate"), minded, Answer(text="Not yet.", times=0)) as fixture,
            fixture.open_thread(tools=[gate.tool]) as thread,
        ):
            turn = asyncio.create_task(collect_events(thread.run("Paint it.")))
            await gate.entered.wait()
            await thread.steer("Mind the stripes.")
            gate.opened.set()
            end = turn_end(await turn)
            assert (end.status, end.text) == ("completed", "Minded.")
            assert (await log_lines(thread)).count("user: Mind the stripes.") == 1
            assert fixture.requests[-1].body.count(b"Mind the stripes.") == 1
            assert await unpaired_calls(thread) == []

    async def test_usage_is_told_as_the_provider_counts_it(self, open_fixture: OpenFixture) -> None:
        counted = Tokens(input=1000, cached=800, output=20, reasoning=5)
        async with (
            open_fixture(Answer(text="Done.", usage=counted)) as fixture,
            fixture.open_thread() as thread,
        ):
            events = await collect_events(thread.run("Go."))
            usage = TokenUsage(
                input_tokens=1000,
                cached_input_tokens=800,
                output_tokens=20,
                reasoning_output_tokens=5,
                total_tokens=1020,
            )
            (reported,) = [event for event in events if isinstance(event, UsageReported)]
            assert (reported.usage, turn_end(events).usage) == (usage, usage)
            assert (await thread.store.turn(thread.id, 1)).usage == usage

    async def test_what_the_provider_does_not_count_is_not_told_as_nothing(
        self, open_fixture: OpenFixture
    ) -> None:
        async with (
            open_fixture(_answer_without_counts("Done.")) as fixture,
            fixture.open_thread() as thread,
        ):
            usage = turn_end(await collect_events(thread.run("Go."))).usage
            assert (usage.input_tokens, usage.output_tokens) == (11, 3)
            assert (usage.cached_input_tokens, usage.reasoning_output_tokens) == (None, None)

    async def test_an_answer_can_be_held_to_a_schema(self, open_fixture: OpenFixture) -> None:
        answers = (Answer(text='{"stripes":9}'), Answer(text="Nine."))
        async with open_fixture(*answers) as fixture, fixture.open_thread() as thread:
            schema = Raw(json_bytes(_SCHEMA))
            assert (
                turn_end(await collect_events(thread.run("Count.", schema=schema))).text
                == '{"stripes":9}'
            )
            assert turn_end(await collect_events(thread.run("In words?"))).text == "Nine."
            first, second = (request.payload.get("text", {}) for request in fixture.requests)
            assert first["format"]["schema"] == _SCHEMA
            assert "format" not in second

    async def test_one_turn_id_runs_once(self, open_fixture: OpenFixture) -> None:
        async with open_fixture(Answer(text="Once.")) as fixture, fixture.open_thread() as thread:
            await collect_events(thread.run("Go.", turn_id="turn_mine"))
            again = turn_end(await collect_events(thread.run("Go.", turn_id="turn_mine")))
            assert (again.turn, again.status) == ("turn_mine", "completed")
            assert len(fixture.requests) == 1
            assert (await log_lines(thread)).count("user: Go.") == 1

    async def test_a_thread_that_is_opened_again_goes_on(self, open_fixture: OpenFixture) -> None:
        async with open_fixture(Answer(text="Zebra."), Answer(text="Nine.")) as fixture:
            async with fixture.open_thread() as thread:
                await collect_events(thread.run("Think of an animal."))
            async with fixture.open_thread(thread.id) as thread:
                assert (
                    turn_end(await collect_events(thread.run("How many stripes?"))).text == "Nine."
                )
            body = fixture.requests[-1].body
            asked, answered, last = (
                body.index(words)
                for words in (b"Think of an animal.", b"Zebra.", b"How many stripes?")
            )
            assert asked < answered < last

    async def test_threads_beside_one_another_hear_only_their_own(
        self, open_fixture: OpenFixture
    ) -> None:
        animals = ("zebra", "heron", "newt")
        answers = [
            Answer(when=f"Draw a {animal}.", text=f"A {animal}.", delay=0.05) for animal in animals
        ]

        async def draw(fixture: HarnessFixture, animal: str) -> tuple[str, list[str]]:
            async with fixture.open_thread() as thread:
                end = turn_end(await collect_events(thread.run(f"Draw a {animal}.")))
                return end.text, await log_lines(thread)

        async with open_fixture(*answers) as fixture:
            found = await asyncio.gather(*(draw(fixture, animal) for animal in animals))
        assert found == [
            (f"A {animal}.", [f"user: Draw a {animal}.", f"assistant: A {animal}."])
            for animal in animals
        ]


async def collect_events(turn: AsyncIterator[Event]) -> list[Event]:
    """Return every event of a turn."""
    return [event async for event in turn]


async def _check_aborted(fixture: HarnessFixture, thread: Thread, events: list[Event]) -> None:
    """Check that the turn is over, every call has its result, and the next turn works."""
    assert turn_end(events).status == "interrupted"
    assert (await thread.store.turn(thread.id, 1)).state == "aborted"
    assert await unpaired_calls(thread) == []
    asked = len(fixture.requests)
    assert turn_end(await collect_events(thread.run("Go on."))).text == "Going on."
    assert len(fixture.requests) == asked + 1


def _is_made(entry: Entry) -> bool:
    """Return whether a model or a tool made this item."""
    item = decode_item(entry.body) if entry.kind == "item" else None
    return item is not None and not (isinstance(item, Message) and item.role != "assistant")


def _answer_without_counts(text: str) -> Answer:
    """Return an answer whose provider counts neither cached nor reasoning tokens."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
    usage = {"input_tokens": 11, "output_tokens": 3, "total_tokens": 14}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
    ]
    body = "".join(
        f"event: {event['type']}\ndata: {msgspec.json.encode(event).decode()}\n\n"
        for event in events
    )
    return Answer(body=body, headers={"content-type": "text/event-stream"})
