"""How the golden conversations reach the runtime: the one file to edit when names move.

Conversations speak only to `Stage` and to the names below. What they say of a thread beside
`model`, `cwd` and `home` goes through `_said`, and every import of the runtime stands here.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import treadle
from treadle import Choices, Hooks, InputProvenance, InternalEvent, PromptContext, tool
from treadle.harness.events import (
    ApprovalRequested,
    Event,
    QuestionsAsked,
    StepStarted,
    TextDelta,
    ToolStarted,
    TurnCompleted,
)
from treadle.harness.loop import LoopHarness
from treadle.hooks.payloads import AfterToolCall, BeforePromptBuild, BeforeToolCall
from treadle.hooks.payloads import TurnStarted as TurnStartedHook
from treadle.hooks.registry import Answer as HookSays
from treadle.loopback import Request
from treadle.models.connect import ProviderConfig
from treadle.models.retry import Backoff
from treadle.prompt.input import LocalImage
from treadle.sandbox.approvals import ForPrefix, No, NoAndStop, Once
from treadle.subagents import post_message
from treadle.testing import FakeServer, ScriptedModel
from treadle.testing.script import Answer, Break, Call, Failure, Script, Tokens

__all__ = [
    "AfterToolCall",
    "Answer",
    "ApprovalRequested",
    "BeforePromptBuild",
    "BeforeToolCall",
    "Break",
    "Call",
    "Choices",
    "Event",
    "Failure",
    "ForPrefix",
    "HookSays",
    "Hooks",
    "InputProvenance",
    "InternalEvent",
    "LocalImage",
    "No",
    "NoAndStop",
    "Once",
    "PromptContext",
    "QuestionsAsked",
    "Stage",
    "StepStarted",
    "TextDelta",
    "Tokens",
    "ToolStarted",
    "TurnStartedHook",
    "call",
    "freeform",
    "says",
    "sent_mail",
    "tool",
    "treadle",
    "until",
]

SPEND = Tokens(cached=0)
"""What is cached is not told: ids that begin alike would make it a matter of chance."""


def call(name: str, /, **arguments: object) -> Call:
    """A call of a function; its id is its name and a number, see `Stage.model`."""
    return Call(name=name, arguments=arguments)


def freeform(name: str, text: str) -> Call:
    """A call of a freeform tool."""
    return Call(name=name, input=text)


def says(text: str = "", *calls: Call, **how: Any) -> Answer:
    """An answer with text, calls or both."""
    return Answer(text=text, calls=calls, usage=how.pop("usage", SPEND), **how)


def numbered(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """The answers with ids for their calls: the name of the tool and a number."""
    count, done = 0, []
    for answer in answers:
        calls = []
        for each in answer.calls:
            count += 1
            name = each.id or f"call_{each.name}_{count:02}"
            calls.append(_with(each, id=name))
        done.append(_with(answer, calls=tuple(calls)))
    return tuple(done)


def _with(struct: Any, **changes: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(struct, **changes)


async def _at_once(seconds: float) -> None:
    """Time that passes at once."""
    del seconds


def patient(retries: int = 2) -> LoopHarness:
    """The usual harness, which waits for nothing."""
    return LoopHarness(patience=Backoff(retries=retries, sleep=_at_once, random=lambda: 0.5))


class Stage:
    """A place for threads, the models that they ask, and what was heard."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.home, self.project = place / "home", place / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.asked: list[tuple[str, Callable[[], Sequence[Request]]]] = []
        """Who answers, and what it was asked."""
        self.heard: list[dict[str, Any]] = []
        """How turns ended, in the order in which they did."""
        self.extra: dict[str, Any] = {}
        """What else a conversation wants to have recorded."""
        self.stack = AsyncExitStack()

    def facts(self, *lines: str, model: str = "script") -> None:
        """Lines about a model for the catalog."""
        with (self.home / "models.toml").open("a") as file:
            file.write("\n".join((f"[models.{model!r}]".replace("'", '"'), *lines, "")))

    def file(self, name: str, data: str | bytes) -> Path:
        """A file in the project."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def model(self, *answers: Answer, name: str = "script", **how: Any) -> ScriptedModel:
        """A scripted model whose requests are recorded."""
        options = {k: how.pop(k) for k in ("remote_compaction",) if k in how}
        script = Script(answers=numbered(answers), **how)
        model = ScriptedModel(script, name, retries=0, **options)
        self.asked.append((model.name, lambda: model.requests))
        self.stack.push_async_callback(model.close)
        return model

    async def provider(self, name: str, api: Any, *answers: Answer) -> ProviderConfig:
        """A provider whose requests are recorded."""
        server = await self.stack.enter_async_context(FakeServer(Script(answers=numbered(answers))))
        self.asked.append((name, lambda: server.requests))
        return ProviderConfig(api=api, base_url=server.base_url, key_required=False, retries=0)

    def handle(self, model: ScriptedModel) -> str:
        """The handle that the newest request of a model names."""
        (found, *_) = re.findall(rb"Full output: (\S+) \(use", model.requests[-1].body)
        return str(found.decode())

    @asynccontextmanager
    async def thread(
        self, model: ScriptedModel | str | None, thread: str | None = None, **options: Any
    ) -> AsyncIterator[treadle.Thread]:
        """A thread in the project, with every right unless said otherwise."""
        cwd = options.pop("cwd", self.project)
        opened = treadle.Thread.open(thread, model=model, cwd=cwd, home=self.home, **_said(options))
        async with opened as found:
            yield found

    async def turn(
        self,
        thread: treadle.Thread,
        *said: Any,
        at: Callable[[Event], Any] = lambda _: None,
        **options: Any,
    ) -> str:
        """A turn; `at` is called with each event. What the model answered."""
        text = ""
        async for event in thread.run(*said, **options):
            done = at(event)
            if done is not None:
                await done
            if isinstance(event, TurnCompleted):
                text = event.text
                told = {"status": event.status, "text": event.text, "error": event.error}
                self.heard.append({k: v for k, v in told.items() if v})
        return text


async def until(done: Callable[[], bool]) -> None:
    """Wait for something that happens."""
    while not done():
        await asyncio.sleep(0.005)


async def sent_mail(thread: treadle.Thread, *texts: str) -> None:
    """Leave messages in the inbox of a thread."""
    for number, text in enumerate(texts):
        await post_message(thread.store, thread.id, text, source="thr_other", key=f"mail {number}")


def _said(options: dict[str, Any]) -> dict[str, Any]:
    """What `Thread.open` is told, in its own words of today."""
    usual = {
        "sandbox": "danger-full-access",
        "approval": "never",
        "environ": {"SHELL": "/bin/bash"},
        "harness": patient(options.pop("retries", 2)),
    }
    return usual | options


@contextmanager
def surroundings() -> Iterator[None]:
    """The same shell and time zone everywhere."""
    fixed = {"SHELL": "/bin/bash", "TZ": "UTC", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    before = {name: os.environ.get(name) for name in fixed}
    os.environ.update(fixed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
