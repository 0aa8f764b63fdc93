"""One trial: a talk is held and folded, then every question is asked in a fork of its own.

Owns how a condition is set up. The talk is played from a script, so that all conditions have
the same history; summaries and answers come from the model that is measured. Invariant: no
question sees another one, and no tool shows the talk's outputs again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from treadle import StepStarted, Thread, ToolStarted, TurnCompleted
from treadle.engines.lossless.call_limits import CallLimiter, CallLimits
from treadle.engines.lossless.engine import LosslessEngine
from treadle.engines.lossless.library import Library
from treadle.models.providers import ProviderConfig
from treadle.store import SqliteIndex, SqliteStore
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Call, Script
from treadle.thread.options import EngineOptions, Routing
from treadle.tools.decorator import tool

from ..recall_quality import write_crowd
from .planted import Exchange, PlantedTalk
from .spoken import Fact

__all__ = ["CONDITIONS", "AskedModel", "Condition", "Outcome", "Reply", "hold_trial"]

Condition: TypeAlias = Literal["whole", "linear", "lossless", "extracts"]
CONDITIONS: tuple[Condition, ...] = ("whole", "linear", "lossless", "extracts")
PLAYER, ASKED = "player", "asked"
_NO_CALLS = CallLimits(calls=0)


@dataclass(frozen=True, slots=True)
class AskedModel:
    """The model that is measured: its name, its server, and the window it is given."""

    name: str
    base_url: str
    window: int
    key_variable: str = ""

    @property
    def spec(self) -> str:
        return f"{ASKED}:{self.name}"


@dataclass(frozen=True, slots=True)
class Reply:
    """How a question was answered."""

    source: str
    question: str
    needed: str
    text: str
    right: bool
    recalled: bool
    """Whether the engine recalled something for it by itself."""
    searches: int
    requests: int
    prompt_tokens: int
    error: str = ""


@dataclass(slots=True)
class Outcome:
    """What a trial found."""

    condition: Condition
    language: str
    crowd: int
    view_before: int = 0
    """Tokens of the whole conversation …"""
    view_after: int = 0
    """… and of what is shown of it after the last fold."""
    fold_seconds: float = 0.0
    replies: list[Reply] = field(default_factory=list)

    def share(self, source: str = "") -> float:
        """Return which share of the answers is right, of all or of one source."""
        asked = [reply for reply in self.replies if source in {"", reply.source}]
        return sum(reply.right for reply in asked) / len(asked) if asked else 0.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


async def hold_trial(
    home: Path,
    talk: PlantedTalk,
    asked: AskedModel,
    condition: Condition,
    *,
    language: str = "en",
    crowd: int = 0,
) -> Outcome:
    """Hold a talk in a home of its own, fold it after each part, and ask."""
    found = Outcome(condition, language, crowd)
    (home / "models.toml").write_text(
        f'providers = ["{PLAYER}", "{ASKED}"]\n[fallback]\ncontext_window = {asked.window}\n'
    )
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(await SqliteStore.open(home))
        index = SqliteIndex(store, home)
        stack.push_async_callback(index.close)
        await write_crowd(store, "work", crowd)
        await index.catch_up()
        player = await stack.enter_async_context(FakeServer(_script(talk), apis=("chat",)))
        options: dict[str, Any] = {
            "home": home,
            "cwd": home,
            "store": store,
            "index": index,
            "engine": _engine(home, condition, asked, stack),
            "routing": Routing(providers=_providers(player.base_url, asked), environ={}),
        }
        thread = await _play(talk, options, found)
        for fact in talk.facts:
            found.replies.append(await _ask(fact, thread, asked, options))
    return found


def _engine(
    home: Path, condition: Condition, asked: AskedModel, stack: AsyncExitStack
) -> EngineOptions:
    if condition == "lossless":
        return EngineOptions(engine="lossless", config={"model": asked.spec})
    if condition == "extracts":
        library = Library(home / "extracts.db")
        stack.push_async_callback(library.close)
        return EngineOptions(engine=LosslessEngine(library, limiter=CallLimiter(limits=_NO_CALLS)))
    return EngineOptions(engine="linear", compaction_model=asked.spec)


def _providers(player: str, asked: AskedModel) -> Mapping[str, ProviderConfig]:
    answers_slowly = ProviderConfig(
        base_url=asked.base_url,
        key_required=bool(asked.key_variable),
        key_variable=asked.key_variable or None,
        idle_timeout=3_600.0,
    )
    return {PLAYER: ProviderConfig(base_url=player, key_required=False), ASKED: answers_slowly}


def _script(talk: PlantedTalk) -> Script:
    turns = (turn for part in talk.parts for turn in part)
    return Script(answers=tuple(answer for turn in turns for answer in _answers(turn)))


def _answers(turn: Exchange) -> Sequence[Answer]:
    said = Answer(text=turn.answer)
    return (Answer(calls=(Call(name="look"),)), said) if turn.output else (said,)


async def _play(talk: PlantedTalk, options: Mapping[str, Any], found: Outcome) -> str:
    """Hold the talk; return the thread. The whole history is never folded."""
    shown: list[str] = []

    @tool(description="Shows what was asked for.")
    async def look() -> str:
        return shown[-1]

    async with Thread.open(model=f"{PLAYER}:talk", tools=(look,), **options) as thread:
        for part in talk.parts:
            for turn in part:
                shown.append(turn.output)
                async for event in thread.run(turn.said):
                    assert not isinstance(event, TurnCompleted) or event.error is None, event.error
            found.view_before += thread.view.tokens - found.view_after
            if found.condition != "whole":
                began = time.perf_counter()
                await thread.compact()
                found.fold_seconds += time.perf_counter() - began
            found.view_after = thread.view.tokens
        return thread.id


async def _ask(fact: Fact, thread: str, asked: AskedModel, options: Mapping[str, Any]) -> Reply:
    """Ask in a fork, so that no question sees another one."""
    async with Thread.open(thread, model=asked.spec, tools=(), **options) as whole:
        fork = await whole.fork()
    searches = requests = 0
    async with Thread.open(fork, model=asked.spec, tools=(), **options) as thread_of_fact:
        async for event in thread_of_fact.run(fact.question):
            searches += isinstance(event, ToolStarted)
            requests += isinstance(event, StepStarted)
            if isinstance(event, TurnCompleted):
                done = event
        recalled = b"<recalled_memory>" in thread_of_fact.request().body
    return Reply(
        source=fact.source,
        question=fact.question,
        needed=fact.needed,
        text=done.text,
        right=fact.is_in(done.text),
        recalled=recalled,
        searches=searches,
        requests=requests,
        prompt_tokens=done.usage.input_tokens // max(requests, 1),
        error=done.error or "",
    )
