"""How the golden conversations reach the runtime: the one file to edit when names move.

Conversations speak only to `Stage` and to the names below. What they say of a thread beside
`model`, `cwd` and `home` goes through `_said`, and every import of the runtime stands here.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import treadle
from treadle import Choices, Hooks, InputProvenance, InternalEvent, PromptContext, tool
from treadle.core.loopback import LoopbackRequest
from treadle.delivery.channel import Delivery, Receipt
from treadle.engines.loading import EngineRegistry
from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.codex.harness import CodexHarness
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
from treadle.hooks.payloads import (
    AfterToolCall,
    BeforeCompaction,
    BeforePromptBuild,
    BeforeToolCall,
    ToolResultReady,
)
from treadle.hooks.payloads import HookAnswer as HookSays
from treadle.hooks.payloads import OnThreadStart as ThreadStarted
from treadle.hooks.payloads import OnTurnEnd as TurnEnded
from treadle.hooks.payloads import OnTurnStart as TurnStartedHook
from treadle.models.providers import ProviderConfig
from treadle.models.retry import Backoff
from treadle.policy.auth.credential import ApiKey
from treadle.policy.auth.credential_store import CredentialStore
from treadle.policy.overlays import Overlays
from treadle.prompt.contributions import Contribution
from treadle.prompt.input import LocalImage
from treadle.prompt.prompt_context import CollaborationMode, ContextValue, PlanStep, Task
from treadle.sandbox.approvals import ForPrefix, ForThread, No, NoAndStop, Once
from treadle.subagents import AgentLimits, post_message
from treadle.testing import FakeServer, ScriptedModel
from treadle.testing.script import Answer, Break, Call, Script, ScriptedError, Tokens
from treadle.testing.thread_keywords import open_keywords
from treadle.transfer.importing import import_paths

__all__ = [
    "MODEL",
    "AfterToolCall",
    "AgentLimits",
    "Answer",
    "ApprovalRequested",
    "BeforeCompaction",
    "BeforePromptBuild",
    "BeforeToolCall",
    "Break",
    "Call",
    "Choices",
    "CollaborationMode",
    "ContextValue",
    "Contribution",
    "Event",
    "ForPrefix",
    "ForThread",
    "HookSays",
    "Hooks",
    "InputProvenance",
    "InternalEvent",
    "LocalImage",
    "No",
    "NoAndStop",
    "Once",
    "Overlays",
    "PlanStep",
    "PromptContext",
    "QuestionsAsked",
    "Queue",
    "ScriptedError",
    "Stage",
    "StepStarted",
    "Task",
    "TextDelta",
    "ThreadStarted",
    "Tokens",
    "ToolResultReady",
    "ToolStarted",
    "TurnEnded",
    "TurnStartedHook",
    "agents_of",
    "builtins_of",
    "call",
    "credentials",
    "failing_engine",
    "folding_engine",
    "freeform",
    "imported",
    "provided",
    "recorded_so_far",
    "retrieval",
    "says",
    "sent_mail",
    "summaries",
    "surroundings",
    "tool",
    "treadle",
    "until",
]

MODEL = "openai:gpt-5.5"
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
    return LoopHarness(backoff=Backoff(retries=retries, sleep=_at_once, random=lambda: 0.5))


class Stage:
    """A place for threads, the models that they ask, and what was heard."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.home, self.project = place / "home", place / "project"
        self.home.mkdir(exist_ok=True)
        self.project.mkdir(exist_ok=True)
        self.asked: list[tuple[str, Callable[[], Sequence[LoopbackRequest]]]] = []
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
        model = ScriptedModel(script, name, **options)
        self.asked.append((model.name, lambda: model.requests))
        self.stack.push_async_callback(model.close)
        return model

    async def provider(self, name: str, api: Any, *answers: Answer) -> ProviderConfig:
        """A provider whose requests are recorded."""
        server = await self.stack.enter_async_context(FakeServer(Script(answers=numbered(answers))))
        self.asked.append((name, lambda: server.requests))
        return provided(api, server.base_url)

    def refusal(self, message: str) -> ScriptedError:
        """What a provider says that will not answer."""
        return ScriptedError(status=400, code="invalid_request_error", message=message)

    async def codex(self, *answers: Answer, projection: Any = "native") -> dict[str, Any]:
        """The options of a thread on the real Codex, whose model gives these answers.

        What it is told by us, and what it asks the model, is recorded.
        """
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.place / "user")}
        environ |= {"SHELL": "/bin/bash", "TZ": "UTC", "LANG": "C.UTF-8"}
        (self.place / "user").mkdir()
        server = await self.stack.enter_async_context(FakeServer(Script(answers=numbered(answers))))
        self.asked.append(("openai", lambda: server.requests))
        known = {
            "openai": ProviderConfig(
                api="responses", base_url=server.base_url, key="sk-planted", retries=0
            )
        }
        options = CodexOptions(binary=self._overheard(), projection=projection)
        harness = CodexHarness(options, home=self.home, environ=environ, providers=known)
        self.stack.push_async_callback(harness.close)
        return {"harness": harness, "environ": environ, "providers": known}

    def _overheard(self) -> Path:
        """Codex, with somebody who writes down what its app-server is told."""
        script, told = self.place / "codex", shlex.quote(str(self.place / "told.jsonl"))
        # The one of the extra, which is what was recorded.
        real = shlex.quote(str(import_module("codex_cli_bin").bundled_codex_path()))
        script.write_text(
            f'#!/bin/sh\ncase "$*" in\n*app-server) tee -a {told} | {real} "$@" ;;\n'
            f'*) exec {real} "$@" ;;\nesac\n'
        )
        script.chmod(0o755)
        return script

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

    async def fold(self, thread: treadle.Thread) -> None:
        """Fold the view of a thread by hand."""
        await thread.compact()
        await self._settled(thread)

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
        await self._settled(thread)
        return text

    async def _settled(self, thread: treadle.Thread) -> None:
        # So that what an engine does beside the turns is done before the next one.
        await thread.wait_for_engine(100)


async def until(done: Callable[[], bool]) -> None:
    """Wait for something that happens."""
    while not done():  # noqa: ASYNC110 - what is waited for tells nobody
        await asyncio.sleep(0.005)


def provided(api: Any, url: str) -> ProviderConfig:
    """A provider without keys or patience."""
    return ProviderConfig(api=api, base_url=url, key_required=False, retries=0)


def retrieval() -> dict[str, Any]:
    """The options of a thread with the engine in `examples/retrieval`."""
    import treadle_retrieval

    engines = EngineRegistry()
    engines.register("retrieval", treadle_retrieval.engine)
    return {"engine": "retrieval", "engines": engines}


class Queue:
    """A channel that takes everything and remembers it."""

    kind = "queue"
    deduplicates = True

    def __init__(self) -> None:
        self.told: list[Any] = []

    async def deliver(self, delivery: Delivery) -> Receipt:
        """Take it."""
        self.told.append(builtins_of(delivery))
        return Receipt("delivered")

    async def close(self) -> None:
        """Nothing is open."""


def builtins_of(value: Any) -> Any:
    """A value as JSON would say it."""
    import msgspec

    return msgspec.json.decode(msgspec.json.encode(value))


def credentials(stage: Stage, provider: str, *names: str) -> CredentialStore:
    """Keys of a provider, in the order of their names."""
    held = CredentialStore(stage.home, keyring=None)
    for name in names:
        held.secrets.put(f"{provider}:{name}", ApiKey(provider=provider, key=f"sk-{name}"))
    return held


def failing_engine() -> Any:
    """An engine that fails whatever it is asked."""
    from tests.engines.scenes import Probe

    broken = RuntimeError("out of order")
    return Probe(assemble=broken, ingest=broken, compact=broken)


def folding_engine() -> Any:
    """An engine that goes through a list of plans, one for each turn."""
    from tests.engines.scenes import Probe, engine_message
    from treadle.engines.values import AssembleResult, recall_item

    turns = 0

    def assemble(given: Any) -> AssembleResult:
        nonlocal turns
        turns += 1
        if turns == 2:
            return AssembleResult(items=given.items, system_prompt_addition="Speak plainly.")
        if turns == 3:
            return AssembleResult(
                items=(engine_message("It rained."), given.items[-1]),
                system_prompt_addition="Speak in rhymes.",
            )
        if turns == 4:
            memory = recall_item("You like tea.")
            return AssembleResult(items=(*given.items[:-1], memory, given.items[-1]))
        return AssembleResult(items=given.items)

    return Probe(assemble=assemble)


def agents_of(thread: treadle.Thread) -> list[str]:
    """The agents that a thread has started."""
    return list(thread.subagents.records)


def summaries(thread: treadle.Thread) -> list[str]:
    """The names of the summaries in view, in order."""
    return [row.node.id for row in thread.view.rows if row.node is not None]


async def recorded_so_far(thread: treadle.Thread) -> None:
    """Wait until the ledger has what was sent."""
    await thread.index.rows(thread.id)


async def imported(stage: Stage, path: Path) -> list[str]:
    """Bring a session in; its threads."""
    async with await treadle.SqliteStore.open(stage.home) as store:
        report = await import_paths(store, [path])
        return [each.thread for each in report.threads]


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
    keywords = open_keywords(**(usual | options))
    # No date: it would be another one tomorrow.
    keywords["prompt"] = replace(keywords["prompt"], clock=None)
    return keywords


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
