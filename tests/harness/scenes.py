"""What the tests of the loop have in common: a thread, a script, and what was heard."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from treadle import Thread
from treadle.core.entries import Entry
from treadle.core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Message,
    decode_item,
    item_type,
    text_of,
)
from treadle.harness.events import (
    Event,
    ItemCompleted,
    NoticeRaised,
    ReasoningDelta,
    Retrying,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnCompleted,
)
from treadle.harness.loop import LoopHarness
from treadle.models.retry import Backoff
from treadle.testing.script import Answer, Call, Script
from treadle.testing.scripted import ScriptedModel
from treadle.testing.thread_keywords import open_keywords

__all__ = [
    "Clock",
    "call",
    "calls_answered_once",
    "hear",
    "last",
    "log",
    "of",
    "open_thread",
    "outline",
    "processes",
    "scripted",
    "unpaired_calls",
]


class Clock:
    """Time that passes at once, and remembers how long it was asked to take."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(round(seconds, 3))


def scripted(*answers: Answer, **options: Any) -> ScriptedModel:
    """A model with these answers."""
    name = options.pop("name", "script")
    names = ("idle_timeout", "remote_compaction", "deferred_tools")
    model = {k: options.pop(k) for k in names if k in options}
    return ScriptedModel(Script(answers=answers, **options), name, **model)


def call(name: str, /, **arguments: object) -> Call:
    """A call of a function."""
    return Call(name=name, arguments=arguments)


@asynccontextmanager
async def open_thread(
    place: Path,
    model: ScriptedModel,
    *,
    thread: str | None = None,
    facts: str = "",
    clock: Clock | None = None,
    retries: int = 5,
    tools: Any = (),
    **options: Any,
) -> AsyncIterator[Thread]:
    """A thread in `place`; `facts` are lines about its model for the catalog."""
    home, project = place / "home", place / "project"
    for directory in (home, project):
        directory.mkdir(exist_ok=True)
    if facts:
        (home / "models.toml").write_text(f"[models.script]\n{facts}\n")
    backoff = Backoff(retries=retries, sleep=(clock or Clock()).sleep, random=lambda: 0.5)
    options = {"sandbox": "danger-full-access", "approval": "never"} | options
    try:
        async with Thread.open(
            thread,
            **open_keywords(
                model=model,
                home=home,
                cwd=project,
                tools=tools,
                harness=LoopHarness(backoff=backoff),
                **options,
            ),
        ) as opened_thread:
            yield opened_thread
    finally:
        await model.close()


async def hear(
    thread: Thread,
    *said: Any,
    at: Callable[[Event], Awaitable[None] | None] = lambda _: None,
    **options: Any,
) -> list[Event]:
    """Every event of a turn; `at` is called with each as it is heard."""
    heard: list[Event] = []
    async for event in thread.run(*said, **options):
        heard.append(event)
        done = at(event)
        if done is not None:
            await done
    return heard


def of(events: Sequence[Event], *kinds: type) -> list[Any]:
    """The events of some kinds."""
    return [event for event in events if isinstance(event, kinds)]


def last(events: Sequence[Event]) -> TurnCompleted:
    """How the turn ended."""
    end = events[-1]
    assert of(events, TurnCompleted) == [end]
    assert isinstance(end, TurnCompleted)
    return end


def outline(events: Sequence[Event]) -> list[str]:
    """Events in a few words each; deltas that follow one another count once."""
    told: list[str] = []
    for event in events:
        line = _word(event)
        if not (told and told[-1] == line and isinstance(event, TextDelta | ReasoningDelta)):
            told.append(line)
    return told


def _word(event: Event) -> str:
    match event:
        case StepStarted(step=step):
            return f"step {step}"
        case ToolStarted(name=name):
            return f"{name} started"
        case ToolFinished(name=name, output=output):
            return f"{name} finished: {output}"
        case ToolProgress(text=text):
            return f"progress {text}"
        case ItemCompleted(item=item):
            return f"item {item_type(decode_item(item))}"
        case TurnCompleted(status=status):
            return status
        case Retrying(attempt=attempt, most=most):
            return f"retry {attempt}/{most}"
        case NoticeRaised(level=level):
            return level
        case _:
            return str(event.__struct_config__.tag)


async def log(thread: Thread) -> list[str]:
    """What people, models and tools said, in log order; context is left out."""
    entries = await thread.store.read(thread.id)
    return [_line(entry) for entry in entries if entry.kind == "item" and not entry.fragments]


def _line(entry: Entry) -> str:
    item = decode_item(entry.body)
    match item:
        case Message():
            return f"{item.role}: {text_of(item.content)}"
        case FunctionCall() | CustomToolCall():
            return f"call {item.name}"
        case FunctionCallOutput() | CustomToolCallOutput():
            return f"output {text_of(item.output)}"
        case _:
            return item_type(item)


async def calls_answered_once(thread: Thread) -> bool:
    """Whether the log holds calls, and one result for each."""
    return any(line.startswith("call ") for line in await log(thread)) and not await unpaired_calls(
        thread
    )


async def unpaired_calls(thread: Thread) -> list[tuple[int, int, str | None]]:
    """The calls of the log that have no result, or more than one."""
    balance: Counter[tuple[int, int, str | None]] = Counter()
    for entry in await thread.store.read(thread.id):
        item = decode_item(entry.body) if entry.kind == "item" else None
        if isinstance(item, FunctionCall | CustomToolCall):
            balance[entry.turn, entry.step, item.call_id] += 1
        elif isinstance(item, FunctionCallOutput | CustomToolCallOutput):
            balance[entry.turn, entry.step, item.call_id] -= 1
    return [call for call, count in balance.items() if count]


def processes(mark: str) -> list[int]:
    """The processes whose arguments or environment hold `mark`."""
    found = []
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit() or int(directory.name) == os.getpid():
            continue
        with suppress(OSError):
            told = (directory / "cmdline").read_bytes() + (directory / "environ").read_bytes()
            if mark.encode() in told:
                found.append(int(directory.name))
    return found
