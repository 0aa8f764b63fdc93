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
from ..script import Answer, Break, Failure, Tokens
from .harness_stage import (
    MODEL,
    Gate,
    HarnessStage,
    calling,
    ended,
    on_stage,
    said,
    unanswered,
)

__all__ = ["HarnessTurns", "Staged", "heard"]

Staged = Callable[..., AbstractAsyncContextManager[HarnessStage]]

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"stripes": {"type": "integer"}},
    "required": ["stripes"],
    "additionalProperties": False,
}


class HarnessTurns(ABC):
    """What every harness must keep in a turn."""

    model: ClassVar[str] = MODEL
    """Which model is asked; its provider is led to the test's own server."""

    @abstractmethod
    def factory(self, offer: HarnessOffer) -> Harness:
        """Make the harness."""

    @pytest.fixture
    def staged(self, tmp_path: Path) -> Staged:
        """Sets a stage with a model that gives some answers."""

        def stage(*answers: Answer) -> AbstractAsyncContextManager[HarnessStage]:
            return on_stage(tmp_path, self.factory, self.model, *answers)

        return stage

    async def test_it_says_who_it_is_and_what_it_can_do(self, staged: Staged) -> None:
        async with staged() as stage:
            harness = stage.harness
            assert harness.name == harness.name.strip().lower() != ""
            assert harness.capabilities <= CAPABILITIES
            assert isinstance(harness.traits, Traits)
            async with stage.opened() as thread:
                registry = thread.registry
                known = {each.id for each in registry.fragments}
                known |= {state.id for state in registry.states}
            assert harness.traits.fragments <= known

    async def test_every_item_is_in_the_log_and_told(self, staged: Staged) -> None:
        async with (
            staged(calling("look"), Answer(text="It has stripes.")) as stage,
            stage.opened() as thread,
        ):
            events = await heard(thread.run("A zebra, please."))
            assert ended(events).text == "It has stripes."
            assert await said(thread) == [
                "user: A zebra, please.",
                "call look",
                "output There it is.",
                "assistant: It has stripes.",
            ]
            told = [event for event in events if isinstance(event, ItemCompleted)]
            entries = {entry.seq: entry for entry in await thread.store.read(thread.id)}
            assert [event.seq for event in told] == sorted(event.seq for event in told)
            assert all(bytes(event.item) == entries[event.seq].body for event in told)
            made = [entry.seq for entry in entries.values() if _is_made(entry)]
            assert [event.seq for event in told if event.seq in made] == made

    async def test_a_turn_begins_once_and_ends_once_around_everything_else(
        self, staged: Staged
    ) -> None:
        async with (
            staged(calling("look"), Answer(text="Done.")) as stage,
            stage.opened() as thread,
        ):
            events: list[Event] = []
            thread.observers.append(events.append)
            await heard(thread.run("Go."))
            turn = await thread.store.turn(thread.id, 1)
            (begun,) = [event for event in events if isinstance(event, TurnStarted)]
            assert (begun.thread, begun.turn, begun.number) == (thread.id, turn.id, 1)
            assert (begun.harness, begun.model) == (stage.harness.name, self.model)
            assert (ended(events).turn, turn.state) == (turn.id, "completed")
            between = [type(event) for event in events[1:-1]]
            assert events[0] == begun
            assert between.index(ToolStarted) < between.index(ToolFinished)

    async def test_each_of_several_calls_has_one_result(self, staged: Staged) -> None:
        async with (
            staged(calling("look", times=3), Answer(text="Done.")) as stage,
            stage.opened() as thread,
        ):
            events = await heard(thread.run("Look three times."))
            assert ended(events).status == "completed"
            assert (await said(thread)).count("output There it is.") == 3
            assert await unanswered(thread) == []
            finished = [event.call_id for event in events if isinstance(event, ToolFinished)]
            assert len(set(finished)) == len(finished) == 3

    async def test_nothing_is_said_or_offered_twice(self, staged: Staged) -> None:
        async with staged(Answer(text="Done.")) as stage, stage.opened(tools=None) as thread:
            await heard(thread.run("Go."))
            (request,) = stage.requests
            assert request.body.count(b"<environment_context>") == 1
            assert request.body.count(b"Go.") == 1
            names = [tool.get("name") for tool in request.payload["tools"] if tool.get("name")]
            assert len(names) == len(set(names)) > 0

    async def test_a_hook_can_forbid_a_call(self, staged: Staged) -> None:
        async def refuse(payload: BeforeToolCall) -> HookAnswer:
            assert payload.tool == "look"
            return HookAnswer(block="not while the zebra sleeps")

        hooks = Hooks()
        hooks.on(BeforeToolCall, refuse)
        async with (
            staged(calling("look"), Answer(text="Then not.")) as stage,
            stage.opened(hooks=hooks) as thread,
        ):
            assert ended(await heard(thread.run("Go."))).status == "completed"
            outputs = [line for line in await said(thread) if line.startswith("output")]
            assert ["not while the zebra sleeps" in line for line in outputs] == [True]

    async def test_an_interrupt_in_a_call_leaves_a_legal_log(self, staged: Staged) -> None:
        gate = Gate()
        async with (
            staged(calling("gate"), Answer(text="Going on.")) as stage,
            stage.opened(tools=[gate.tool]) as thread,
        ):
            turn = asyncio.create_task(heard(thread.run("Wait.")))
            await gate.entered.wait()
            thread.interrupt()
            await _was_aborted(stage, thread, await turn)

    async def test_an_interrupt_in_an_answer_leaves_a_legal_log(self, staged: Staged) -> None:
        answer = Answer(text="Once upon a time there was a zebra.", stall=Break(events=5))
        async with staged(answer, Answer(text="Going on.")) as stage, stage.opened() as thread:
            events: list[Event] = []
            async for event in thread.run("Tell me."):
                events.append(event)
                if isinstance(event, TextDelta):
                    thread.interrupt()
            await _was_aborted(stage, thread, events)

    async def test_a_failing_model_fails_the_turn_and_not_the_thread(self, staged: Staged) -> None:
        failure = Answer(error=Failure(status=400, code="invalid", message="that was wrong"))
        async with staged(failure, Answer(text="Going on.")) as stage, stage.opened() as thread:
            end = ended(await heard(thread.run("Go.")))
            assert end.status == "failed"
            assert end.error is not None
            assert "that was wrong" in end.error
            assert (await thread.store.turn(thread.id, 1)).state == "failed"
            assert ended(await heard(thread.run("And now?"))).text == "Going on."
            asked = [line for line in await said(thread) if line.startswith("user: ")]
            assert asked == ["user: Go.", "user: And now?"]

    async def test_what_is_said_to_a_turn_reaches_the_model(self, staged: Staged) -> None:
        gate = Gate()
        minded = Answer(when="Mind the stripes.", text="Minded.")
        async with (
            staged(calling("gate"), minded, Answer(text="Not yet.", times=0)) as stage,
            stage.opened(tools=[gate.tool]) as thread,
        ):
            turn = asyncio.create_task(heard(thread.run("Paint it.")))
            await gate.entered.wait()
            await thread.steer("Mind the stripes.")
            gate.opened.set()
            end = ended(await turn)
            assert (end.status, end.text) == ("completed", "Minded.")
            assert (await said(thread)).count("user: Mind the stripes.") == 1
            assert stage.requests[-1].body.count(b"Mind the stripes.") == 1
            assert await unanswered(thread) == []

    async def test_usage_is_told_as_the_provider_counts_it(self, staged: Staged) -> None:
        counted = Tokens(input=1000, cached=800, output=20, reasoning=5)
        async with (
            staged(Answer(text="Done.", usage=counted)) as stage,
            stage.opened() as thread,
        ):
            events = await heard(thread.run("Go."))
            usage = TokenUsage(
                input_tokens=1000,
                cached_input_tokens=800,
                output_tokens=20,
                reasoning_output_tokens=5,
                total_tokens=1020,
            )
            (reported,) = [event for event in events if isinstance(event, UsageReported)]
            assert (reported.usage, ended(events).usage) == (usage, usage)
            assert (await thread.store.turn(thread.id, 1)).usage == usage

    async def test_what_the_provider_does_not_count_is_not_told_as_nothing(
        self, staged: Staged
    ) -> None:
        async with staged(_uncounted("Done.")) as stage, stage.opened() as thread:
            usage = ended(await heard(thread.run("Go."))).usage
            assert (usage.input_tokens, usage.output_tokens) == (11, 3)
            assert (usage.cached_input_tokens, usage.reasoning_output_tokens) == (None, None)

    async def test_an_answer_can_be_held_to_a_schema(self, staged: Staged) -> None:
        answers = (Answer(text='{"stripes":9}'), Answer(text="Nine."))
        async with staged(*answers) as stage, stage.opened() as thread:
            schema = Raw(json_bytes(_SCHEMA))
            assert ended(await heard(thread.run("Count.", schema=schema))).text == '{"stripes":9}'
            assert ended(await heard(thread.run("In words?"))).text == "Nine."
            first, second = (request.payload.get("text", {}) for request in stage.requests)
            assert first["format"]["schema"] == _SCHEMA
            assert "format" not in second

    async def test_one_turn_id_runs_once(self, staged: Staged) -> None:
        async with staged(Answer(text="Once.")) as stage, stage.opened() as thread:
            await heard(thread.run("Go.", turn_id="turn_mine"))
            again = ended(await heard(thread.run("Go.", turn_id="turn_mine")))
            assert (again.turn, again.status) == ("turn_mine", "completed")
            assert len(stage.requests) == 1
            assert (await said(thread)).count("user: Go.") == 1

    async def test_a_thread_that_is_opened_again_goes_on(self, staged: Staged) -> None:
        async with staged(Answer(text="Zebra."), Answer(text="Nine.")) as stage:
            async with stage.opened() as thread:
                await heard(thread.run("Think of an animal."))
            async with stage.opened(thread.id) as thread:
                assert ended(await heard(thread.run("How many stripes?"))).text == "Nine."
            body = stage.requests[-1].body
            asked, answered, last = (
                body.index(words)
                for words in (b"Think of an animal.", b"Zebra.", b"How many stripes?")
            )
            assert asked < answered < last

    async def test_threads_beside_one_another_hear_only_their_own(self, staged: Staged) -> None:
        animals = ("zebra", "heron", "newt")
        answers = [
            Answer(when=f"Draw a {animal}.", text=f"A {animal}.", delay=0.05) for animal in animals
        ]

        async def drawn(stage: HarnessStage, animal: str) -> tuple[str, list[str]]:
            async with stage.opened() as thread:
                end = ended(await heard(thread.run(f"Draw a {animal}.")))
                return end.text, await said(thread)

        async with staged(*answers) as stage:
            found = await asyncio.gather(*(drawn(stage, animal) for animal in animals))
        assert found == [
            (f"A {animal}.", [f"user: Draw a {animal}.", f"assistant: A {animal}."])
            for animal in animals
        ]


async def heard(turn: AsyncIterator[Event]) -> list[Event]:
    """Every event of a turn."""
    return [event async for event in turn]


async def _was_aborted(stage: HarnessStage, thread: Thread, events: list[Event]) -> None:
    """The turn is over, every call has its result, and the next turn works."""
    assert ended(events).status == "interrupted"
    assert (await thread.store.turn(thread.id, 1)).state == "aborted"
    assert await unanswered(thread) == []
    asked = len(stage.requests)
    assert ended(await heard(thread.run("Go on."))).text == "Going on."
    assert len(stage.requests) == asked + 1


def _is_made(entry: Entry) -> bool:
    """Whether a model or a tool has said this."""
    item = decode_item(entry.body) if entry.kind == "item" else None
    return item is not None and not (isinstance(item, Message) and item.role != "assistant")


def _uncounted(text: str) -> Answer:
    """An answer whose provider counts neither cached tokens nor those of reasoning."""
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
