"""Stages: a harness in front of scripted models, for rows to be played on.

Owns the loopback servers, the home and the harness that a run of the matrix shares.
Invariant: a row finds clean scripts and empty records, whatever was played before.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from ...harness.contract import Closes, Harness
from ...harness.events import Event
from ...models.providers import ProviderConfig
from ..fake import FakeServer
from ..options import grouped
from ..script import Answer, Script

if TYPE_CHECKING:
    from ...core.loopback import LoopbackRequest
    from ...engines.contract import ContextEngine
    from ...models.contract import Model
    from ...thread.thread import Thread

__all__ = [
    "MODEL",
    "SECRET",
    "SPARE",
    "EngineMaker",
    "HarnessMaker",
    "ModelMaker",
    "Scenery",
    "Stage",
    "answers",
    "codex_stage",
    "opened_stage",
    "treadle_stage",
]

MODEL = "openai:gpt-5.5"
SPARE = "spare:gpt-5.4"
"""A model of another provider, behind a server of its own: somebody to fall back to."""
SECRET = "sk-planted-0123456789abcdef"  # noqa: S105 - it opens nothing
"""The key of the loopback providers; it must show up nowhere but in requests."""

Told: TypeAlias = Answer | Mapping[str, Any]
EngineMaker: TypeAlias = "Callable[[], ContextEngine]"
ModelMaker: TypeAlias = "Callable[[str], Model]"
"""Makes a model that asks the server at an address."""


@dataclass(frozen=True, slots=True)
class Scenery:
    """What threads on a stage have where a row does not bring its own."""

    engine: str | EngineMaker = "linear"
    model: str | ModelMaker = MODEL
    """A model's name, asked in the wire format of its provider, or what makes one."""


@dataclass(slots=True)
class Stage:
    """Where rows are played."""

    name: str
    place: Path
    server: FakeServer
    spare: FakeServer
    harness: Harness
    scenery: Scenery = field(default_factory=Scenery)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the model has been asked something since the script began."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def providers(self) -> dict[str, ProviderConfig]:
        """How the loopback servers are reached."""
        return providers(self.server, self.spare, self.scenery)

    @property
    def environ(self) -> dict[str, str]:
        """An environment without keys."""
        return environ(self.place)

    @property
    def requests(self) -> list[LoopbackRequest]:
        """What the model was asked to answer."""
        return [asked for asked in self.server.requests if asked.method == "POST"]

    def script(self, *answers: Told, spare: Sequence[Told] = ()) -> None:
        """What the model says from now on, and what the spare one says."""
        self.heard.clear()
        self.server.play(_script(answers))
        self.spare.play(_script(spare))

    def directory(self) -> Path:
        """A directory that nobody has worked in."""
        project = self.place / f"project-{next(self._numbers)}"
        project.mkdir()
        return project

    @asynccontextmanager
    async def thread(self, thread: str | None = None, **options: Any) -> AsyncIterator[Thread]:
        """A thread on the harness, in a directory of its own."""
        from ...thread.thread import Thread

        given: dict[str, Any] = {
            "model": self._model(),
            "engine": self._engine(),
            "harness": self.harness,
            "home": self.place / "treadle",
            "cwd": self.directory(),
            "sandbox": "danger-full-access",
            "approval": "never",
            "environ": self.environ,
            "providers": self.providers,
        }
        async with Thread.open(thread, **grouped(**(given | options))) as opened:
            yield opened

    async def turn(self, thread: Thread, *said: Any, **options: Any) -> list[Event]:
        """Run a turn; all that was heard."""
        return [event async for event in thread.run(*said, **options)]

    def _model(self) -> str | Model:
        model = self.scenery.model
        return model if isinstance(model, str) else model(self.server.base_url)

    def _engine(self) -> str | ContextEngine:
        engine = self.scenery.engine
        return engine if isinstance(engine, str) else engine()


HarnessMaker: TypeAlias = Callable[
    [Path, Mapping[str, ProviderConfig]], Awaitable[Harness] | Harness
]
"""Makes a harness for a place and the providers that it reaches there."""

Opened: TypeAlias = AbstractAsyncContextManager[Stage]


@asynccontextmanager
async def opened_stage(
    name: str, make: HarnessMaker, scenery: Scenery | None = None
) -> AsyncIterator[Stage]:
    """A stage for any harness."""
    scenery = scenery or Scenery()
    with tempfile.TemporaryDirectory(prefix="treadle-matrix-") as scratch:
        place = Path(scratch)
        for each in ("treadle", "home"):
            (place / each).mkdir()
        heard = asyncio.Event()
        first = FakeServer(_script(()), on_request=lambda _: heard.set())
        async with first as server, FakeServer(_script(())) as spare:
            made = make(place, providers(server, spare, scenery))
            harness = await made if inspect.isawaitable(made) else made
            try:
                yield Stage(name, place, server, spare, harness, scenery, heard)
            finally:
                if isinstance(harness, Closes):
                    await harness.close()


def treadle_stage(scenery: Scenery | None = None) -> Opened:
    """The stage of Treadle's own loop."""
    from ...harness.loop import LoopHarness
    from ...models.retry import Backoff

    return opened_stage("treadle", lambda *_: LoopHarness(backoff=Backoff(retries=0)), scenery)


def codex_stage(scenery: Scenery | None = None) -> Opened:
    """The stage of the real Codex app-server."""

    def make(place: Path, reached: Mapping[str, ProviderConfig]) -> Harness:
        from ...harness.codex.harness import CodexHarness

        return CodexHarness(home=place / "treadle", environ=environ(place), providers=reached)

    return opened_stage("codex", make, scenery)


def providers(
    server: FakeServer, spare: FakeServer, scenery: Scenery | None = None
) -> dict[str, ProviderConfig]:
    """The loopback servers as the only providers."""
    reached = {"openai": _reached(server), "spare": _reached(spare)}
    model = (scenery or Scenery()).model
    if isinstance(model, str) and (provider := model.partition(":")[0]) not in reached:
        # Asked in the provider's own format; the server speaks them all.
        reached[provider] = ProviderConfig(base_url=server.base_url, key=SECRET, retries=0)
    return reached


def environ(place: Path) -> dict[str, str]:
    """A search path, a home, and nothing else."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(place / "home")}


def answers(given: Mapping[str, Any], name: str = "answers") -> Sequence[Mapping[str, Any]]:
    """The model's part in what a row gives."""
    told: Sequence[Mapping[str, Any]] = given.get(name, ())
    return told


def _reached(server: FakeServer) -> ProviderConfig:
    return ProviderConfig(api="responses", base_url=server.base_url, key=SECRET, retries=0)


def _script(told: Sequence[Told]) -> Script:
    said = (
        each if isinstance(each, Answer) else msgspec.convert(dict(each), Answer) for each in told
    )
    return Script(answers=tuple(said))
