"""An engine that notes what it is asked, in as many shapes as there are powers."""

from __future__ import annotations

import asyncio
import inspect
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.scenes import hear, open_thread, scripted
from treadle import Thread
from treadle.core.entries import Entry, Epoch
from treadle.core.items import (
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Item,
    Message,
    item_type,
    text_of,
)
from treadle.core.loopback import LoopbackRequest
from treadle.engines.contract import EngineInfo, Rollback
from treadle.engines.values import (
    AfterTurnParams,
    AssembleParams,
    AssembleResult,
    BootstrapParams,
    BootstrapResult,
    CommitParams,
    CommitResult,
    CompactParams,
    CompactResult,
    ContextItem,
    IngestBatchParams,
    IngestBatchResult,
    IngestParams,
    IngestResult,
    InterceptParams,
    InterceptResult,
    MaintainParams,
    MaintainResult,
    ResetParams,
    SpawnParams,
    SubagentEndedParams,
)
from treadle.harness.events import EngineReported, Event, NoticeRaised
from treadle.store.sqlite import SqliteStore
from treadle.testing.script import Answer
from treadle.testing.scripted import ScriptedModel
from treadle.testing.thread_keywords import open_keywords

__all__ = [
    "Batching",
    "Booting",
    "Closing",
    "Committing",
    "Following",
    "Forgetting",
    "Intercepting",
    "Probe",
    "Spawning",
    "Tidying",
    "Twins",
    "Watching",
    "actions",
    "chatter",
    "describe_item",
    "engine_message",
    "epochs",
    "guidance",
    "notices",
    "past",
    "reports",
    "shows",
]


class Probe:
    """Does what a test wants of it, and otherwise changes nothing."""

    info = EngineInfo(id="probe", name="Probe")

    def __init__(self, info: EngineInfo | None = None, **answers: Any) -> None:
        """`answers` are values, errors, or functions of what is given, by call."""
        self.info = info or self.info
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []

    @property
    def calls(self) -> list[str]:
        """What it was asked, in order."""
        return [call for call, _ in self.asked]

    def given(self, call: str) -> list[Any]:
        """What some calls were given, in order."""
        return [given for name, given in self.asked if name == call]

    async def answer(self, call: str, given: Any, usual: Any = None) -> Any:
        self.asked.append((call, given))
        wanted = self.answers.get(call, usual)
        if callable(wanted):
            wanted = wanted(given)
        if inspect.isawaitable(wanted):
            wanted = await wanted
        if isinstance(wanted, BaseException):
            raise wanted
        return wanted

    async def ingest(self, given: IngestParams, /) -> IngestResult:
        result: IngestResult = await self.answer("ingest", given, IngestResult(True))
        return result

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        usual = AssembleResult(items=given.items)
        result: AssembleResult = await self.answer("assemble", given, usual)
        return result

    async def compact(self, given: CompactParams, /) -> CompactResult:
        assert given.delegate is not None
        result: CompactResult = await self.answer("compact", given, lambda _: given.delegate())
        return result


class Booting(Probe):
    async def bootstrap(self, given: BootstrapParams, /) -> BootstrapResult:
        usual = BootstrapResult(bootstrapped=True)
        result: BootstrapResult = await self.answer("bootstrap", given, usual)
        return result


class Tidying(Probe):
    async def maintain(self, given: MaintainParams, /) -> MaintainResult:
        result: MaintainResult = await self.answer("maintain", given, MaintainResult())
        return result


class Batching(Probe):
    async def ingest_batch(self, given: IngestBatchParams, /) -> IngestBatchResult:
        usual = IngestBatchResult(len(given.items))
        result: IngestBatchResult = await self.answer("ingest_batch", given, usual)
        return result


class Following(Probe):
    async def after_turn(self, given: AfterTurnParams, /) -> None:
        await self.answer("after_turn", given)


class Committing(Probe):
    """Knows the keys it has seen."""

    def __init__(self, info: EngineInfo | None = None, **answers: Any) -> None:
        super().__init__(info, **answers)
        self.keys: list[str] = []

    async def commit_turn(self, given: CommitParams, /) -> CommitResult:
        usual = CommitResult("duplicate" if given.key in self.keys else "committed")
        result: CommitResult = await self.answer("commit_turn", given, usual)
        if given.key not in self.keys:
            self.keys.append(given.key)
        return result


class Intercepting(Probe):
    async def intercept_compaction(self, given: InterceptParams, /) -> InterceptResult:
        usual = InterceptResult()
        result: InterceptResult = await self.answer("intercept_compaction", given, usual)
        return result


class Spawning(Probe):
    async def prepare_subagent_spawn(self, given: SpawnParams, /) -> Rollback | None:
        result: Rollback | None = await self.answer("prepare_subagent_spawn", given)
        return result


class Watching(Probe):
    async def on_subagent_ended(self, given: SubagentEndedParams, /) -> None:
        await self.answer("on_subagent_ended", given)


class Forgetting(Probe):
    async def thread_reset(self, given: ResetParams, /) -> None:
        await self.answer("thread_reset", given)


class Closing(Probe):
    async def dispose(self) -> None:
        await self.answer("dispose", None)


async def past(place: Path, *inputs: str, **options: Any) -> str:
    """A thread that has run some turns; its name."""
    model = scripted(*(Answer(text=f"On {text}.") for text in inputs))
    async with open_thread(place, model, **options) as thread:
        for text in inputs:
            await hear(thread, text)
        return thread.id


@dataclass(slots=True)
class Twins:
    """One new thread in many homes, so that what differs is not its name or its place."""

    place: Path
    thread: str

    @classmethod
    async def born(cls, place: Path) -> Twins:
        (place / "project").mkdir()
        store = await SqliteStore.open(place / "seed")
        thread = (await store.create(cwd=str(place / "project"))).id
        await store.close()
        return cls(place, thread)

    @asynccontextmanager
    async def opened(
        self, name: str, model: ScriptedModel, *, facts: str = "", **options: Any
    ) -> AsyncIterator[Thread]:
        """The thread in a home of its own."""
        home = self.place / name
        if not home.exists():
            await asyncio.to_thread(shutil.copytree, self.place / "seed", home)
        if facts:
            (home / "models.toml").write_text(f"[models.script]\n{facts}\n")
        options = {"sandbox": "danger-full-access", "approval": "never", "tools": ()} | options
        project = self.place / "project"
        try:
            async with Thread.open(
                self.thread, **open_keywords(model=model, home=home, cwd=project, **options)
            ) as opened_thread:
                yield opened_thread
        finally:
            await model.close()


def describe_item(item: ContextItem) -> str:
    """An item in a few words."""
    return _words(item.item)


def shows(request: LoopbackRequest) -> list[str]:
    """The conversation in a request: texts, without what stands in markers of the runtime."""
    told = [_wire(item) for item in request.payload["input"]]
    return [line for line in told if not line.startswith("<")]


def guidance(request: LoopbackRequest) -> list[str]:
    """What a request says of an engine's guidance."""
    texts = [
        part["text"]
        for item in request.payload["input"]
        if item.get("role") == "developer"
        for part in item["content"]
    ]
    return [text for text in texts if "<engine_guidance>" in text]


def chatter(thread: Thread) -> list[str]:
    """The conversation that a thread shows."""
    return [_words(row.item) for row in thread.view.rows if not row.contextual]


def engine_message(text: str, **how: Any) -> ContextItem:
    """A message that an engine wrote."""
    return ContextItem.of(Message(role="user", content=(InputText(text),)), **how)


def reports(events: Sequence[Event]) -> list[EngineReported]:
    """What was reported of engines."""
    return [event for event in events if isinstance(event, EngineReported)]


def actions(events: Sequence[Event]) -> list[str]:
    """The names of what was reported, in order."""
    return [report.action for report in reports(events)]


def notices(events: Sequence[Event]) -> list[str]:
    """What the user was told, in order."""
    return [event.text for event in events if isinstance(event, NoticeRaised)]


async def epochs(thread: Thread) -> list[tuple[str, str]]:
    """Why the view got other bases, and by whom."""
    entries: list[Entry] = await thread.store.read(thread.id)
    found = [entry.control for entry in entries if entry.kind == "epoch"]
    return [
        (str(control.reason), control.by)
        for control in found
        if isinstance(control, Epoch) and control.recipe is not None
    ]


def _words(item: Item) -> str:
    match item:
        case Message():
            return text_of(item.content)
        case FunctionCall():
            return f"call {item.name}"
        case FunctionCallOutput():
            return f"output {text_of(item.output)}"
        case _:
            return item_type(item)


def _wire(item: dict[str, Any]) -> str:
    match item["type"]:
        case "message":
            return "".join(part["text"] for part in item["content"])
        case "function_call":
            return f"call {item['name']}"
        case "function_call_output":
            return f"output {item['output']}"
        case other:
            return str(other)
