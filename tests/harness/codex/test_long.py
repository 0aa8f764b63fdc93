from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import msgspec
import treadle_retrieval

from tests.engines.lossless.scenes import FOREGROUND, check, words
from treadle import Thread
from treadle.engines.contract import ContextEngine
from treadle.engines.loading import EngineContext
from treadle.engines.lossless.call_limits import CallLimiter, CallLimits
from treadle.engines.lossless.chunks import Thresholds
from treadle.engines.lossless.engine import LosslessEngine
from treadle.engines.lossless.library import Library
from treadle.harness.events import CompactionFinished, Event, ItemCompleted, StepStarted
from treadle.testing.script import Answer, Call, Script, Tokens
from treadle.testing.wrapping import RecordedCalls, wrap_engine
from treadle.tools.decorator import tool

from .scenes import Items, Stage, hear, last, of, open_stage, request_items

TURNS = 40
LOOKS = range(0, TURNS, 4)
"""The turns in which something is looked at."""
FULL = 245_000
"""Tokens at which Codex compacts a thread by itself."""
_GUIDANCE = b'[{"type":"input_text","text":"<engine_guidance>'


@tool(parallel=True)
async def look(number: int) -> str:
    """Looks at something."""
    return f"saw {number}: {words(number, 80)}"


def said(number: int) -> str:
    return f"turn {number:02}: tell me of src/part_{number}.py. {words(number, 90)}"


def script(full: int = -1) -> Script:
    """A model that answers, looks in some turns, and sums up; turn `full` fills its window."""
    sums_up = [
        Answer(when=asked, text="They looked at things, one after another.", times=0)
        for asked in ("Summarise the source now", "CONTEXT CHECKPOINT COMPACTION")
    ]
    # What is recalled is older than what is asked: the newest turn is answered.
    turns = [each for number in reversed(range(TURNS)) for each in _answers(number, full)]
    return Script(answers=(*sums_up, *turns))


def _answers(number: int, full: int) -> Iterator[Answer]:
    usage = Tokens(input=FULL) if number == full else Tokens()
    given = f"answer {number}: {words(number + 500, 60)}"
    if number in LOOKS:
        call = Call(name="look", arguments={"number": number})
        yield Answer(when=f"saw {number}:", text=given, usage=usage)
        yield Answer(when=f"turn {number:02}:", calls=(call,))
    else:
        yield Answer(when=f"turn {number:02}:", text=given, usage=usage)


@dataclass
class Witness:
    """What the view shows, looked at whenever an item is logged, and what the model is shown."""

    stage: Stage
    thread: Thread
    heard: list[Event] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    """The requests of Codex's turns."""
    bases: list[int] = field(default_factory=list)
    """What the view was based on at every step."""
    _view: Items = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        """Look: an observer is called at once."""
        self.heard.append(event)
        if isinstance(event, StepStarted):
            self.bases.append(self.thread.view.base)
        if isinstance(event, ItemCompleted):
            rows = self.thread.view.rows
            self._view = plain_items([msgspec.json.decode(row.body) for row in rows])

    async def turns(self, numbers: range) -> None:
        """Turns, each of whose requests shows exactly what the view shows, in order."""
        for number in numbers:
            before = len(self.stage.requests)
            assert last(await hear(self.thread, said(number))).status == "completed"
            new = [each for each in self.stage.requests[before:] if is_turn(each)]
            assert len(new) == 1 + (number in LOOKS)
            for request in new:
                assert request.body.count(b"</engine_guidance>") <= 1
                items = plain_items(request_items(request))
                assert items == self._view[: len(items)]
            assert {item["role"] for item in self._view[len(items) :]} == {"assistant"}
            self.asked += new


def is_turn(request: Any) -> bool:
    """Whether Codex asks within a turn, and not for a summary."""
    return b'"request_kind":"turn"' in request.headers.get("x-codex-turn-metadata", "").encode()


def plain_items(items: Items) -> Items:
    """Items without their ids, and without what an engine says once in every request."""
    return [
        {name: value for name, value in item.items() if name != "id"}
        for item in items
        if not msgspec.json.encode(item.get("content")).startswith(_GUIDANCE)
    ]


def threads_of(requests: Sequence[Any]) -> list[str]:
    """The Codex threads that made requests, in order."""
    return [name for name, _ in groupby(each.payload["prompt_cache_key"] for each in requests)]


def breaks(requests: Sequence[Any]) -> int:
    """How many requests do not begin with all of the one before."""
    return sum(not extends(one.payload, other.payload) for one, other in pairwise(requests))


def extends(former: dict[str, Any], later: dict[str, Any]) -> bool:
    items: Items = former["input"]
    begins: bool = later["input"][: len(items)] == items
    return begins and bool(later["tools"] == former["tools"])


@asynccontextmanager
async def watched(
    stage: Stage, engine: ContextEngine
) -> AsyncIterator[tuple[Witness, RecordedCalls]]:
    """A thread with `engine`, and all that the engine was told."""
    calls = RecordedCalls()
    async with stage.thread(tools=(look,), engine=wrap_engine(engine, calls)) as thread:
        witness = Witness(stage, thread)
        thread.observers.append(witness)
        yield witness, calls


async def committed_each_turn_once(thread: Thread, calls: RecordedCalls) -> None:
    keys = [given.key for given in calls.given_to("commit_turn")]
    assert keys == [f"{thread.id}/{number}" for number in range(1, TURNS + 1)]
    await thread.log.done.settle()
    assert [
        row for row in await thread.store.outbox(thread=thread.id) if row.topic != "codex"
    ] == []


async def test_the_lossless_engine_is_shown_whole_through_many_epochs(tmp_path: Path):
    async with open_stage(tmp_path, script=script()) as stage:
        (tmp_path / "treadle" / "models.toml").write_text(
            "[models.'gpt-5.5']\ncontext_window = 12000\n"
        )
        library = Library(tmp_path / "lossless.db")
        limiter = CallLimiter(limits=CallLimits(calls=10_000))
        engine = LosslessEngine(library, Thresholds(), limiter, FOREGROUND)
        async with watched(stage, engine) as (witness, calls):
            await witness.turns(range(TURNS))
            await committed_each_turn_once(witness.thread, calls)
            await check(witness.thread, library)
        await library.close()
    epochs = [base for base, _ in groupby(witness.bases)]
    assert len(epochs) >= 3
    assert len(threads_of(witness.asked)) == len(epochs)
    assert breaks(witness.asked) == len(epochs) - 1


async def test_the_example_engine_is_shown_whole_through_native_compactions(tmp_path: Path):
    async with open_stage(tmp_path, script=script(full=26)) as stage:
        engine = treadle_retrieval.engine(EngineContext(home=tmp_path / "engine"))
        async with watched(stage, engine) as (witness, calls):
            await witness.turns(range(14))
            await witness.thread.compact()
            await witness.turns(range(14, 40))
            await committed_each_turn_once(witness.thread, calls)
        await engine.dispose()
    assert [compact.by for compact in of(witness.heard, CompactionFinished)] == [
        "codex-app-server"
    ] * 2
    assert len(threads_of(witness.asked)) == 1
    assert breaks(witness.asked) == 2
