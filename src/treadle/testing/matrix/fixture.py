"""The test fixture of the matrix: a harness in front of fake model servers.

Owns the loopback servers, the home and the harness that the rows share. Invariant: each row
finds a fresh script and an empty record of requests.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ...core.typed import convert
from ...harness.contract import Closes, Harness
from ...harness.events import Event
from ...models.providers import ProviderConfig
from ...models.retry import Backoff
from ...store import SqliteStore
from ...thread.thread import Thread
from ..fake import FakeServer
from ..script import Answer, Script
from ..thread_keywords import open_keywords

if TYPE_CHECKING:
    from ...core.loopback import LoopbackRequest
    from ...engines.contract import ContextEngine
    from ...models.contract import Model
    from ...store.contract import Store
__all__ = [
    "MODEL",
    "SECRET",
    "SPARE",
    "EngineMaker",
    "HarnessMaker",
    "MatrixFixture",
    "ModelMaker",
    "ThreadDefaults",
    "answers",
    "codex_fixture",
    "open_fixture",
    "treadle_fixture",
]

MODEL = "openai:gpt-5.5"
SPARE = "spare:gpt-5.4"
"""A model of another provider, behind a server of its own: a model to fall back to."""
SECRET = "sk-planted-0123456789abcdef"  # noqa: S105 - it opens nothing
"""The key of the loopback providers; it must show up nowhere but in requests."""

AnswerData: TypeAlias = Answer | Mapping[str, Any]
EngineMaker: TypeAlias = "Callable[[], ContextEngine]"
ModelMaker: TypeAlias = "Callable[[str], Model]"
"""Makes a model that sends its requests to a base URL."""


@dataclass(frozen=True, slots=True)
class ThreadDefaults:
    """The engine and the model of threads, where a row does not bring its own."""

    engine: str | EngineMaker = "linear"
    model: str | ModelMaker = MODEL
    """The name of a model, which is asked in its provider's wire format, or a factory."""
    store: str | None = None
    """The address of the database in which threads live; None for a file in the home."""


@dataclass(slots=True)
class MatrixFixture:
    """A harness, its model servers and a scratch directory, shared by the rows."""

    name: str
    directory: Path
    server: FakeServer
    spare: FakeServer
    harness: Harness
    defaults: ThreadDefaults = field(default_factory=ThreadDefaults)
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the first request to the model since the script began."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def providers(self) -> dict[str, ProviderConfig]:
        """Return the loopback servers as providers."""
        return providers(self.server, self.spare, self.defaults)

    @property
    def environ(self) -> dict[str, str]:
        """Return an environment without keys."""
        return environ(self.directory)

    @property
    def requests(self) -> list[LoopbackRequest]:
        """Return the requests that the model was sent."""
        return [each for each in self.server.requests if each.method == "POST"]

    @property
    def home(self) -> Path:
        """Return the home of the threads."""
        return self.directory / "treadle"

    @asynccontextmanager
    async def open_store(self, clock: Callable[[], float] | None = None) -> AsyncIterator[Store]:
        """Open the store of the threads as another process would, with a clock of its own."""
        address = self.defaults.store
        if address is None:
            async with await SqliteStore.open(self.home, clock=clock or time.time) as store:
                yield store
            return
        from ...store.postgres.postgres_store import PostgresStore

        async with await PostgresStore.open(address, clock=clock) as database:
            yield database

    def play(self, *answers: AnswerData, spare: Sequence[AnswerData] = ()) -> None:
        """Begin a script for the model, and one for the spare model."""
        self.was_asked.clear()
        self.server.play(_script(answers))
        self.spare.play(_script(spare))

    def make_directory(self) -> Path:
        """Make an empty project directory."""
        project = self.directory / f"project-{next(self._numbers)}"
        project.mkdir()
        return project

    @asynccontextmanager
    async def open_thread(self, thread: str | None = None, **options: Any) -> AsyncIterator[Thread]:
        """Open a thread on the harness, in a directory of its own."""
        given: dict[str, Any] = {
            "model": self._model(),
            "engine": self._engine(),
            "harness": self.harness,
            "home": self.home,
            "store": self.defaults.store,
            "cwd": self.make_directory(),
            "sandbox": "danger-full-access",
            "approval": "never",
            "environ": self.environ,
            "providers": self.providers,
        }
        async with Thread.open(thread, **open_keywords(**(given | options))) as opened:
            yield opened

    async def run_turn(self, thread: Thread, *inputs: Any, **options: Any) -> list[Event]:
        """Run a turn and return its events."""
        return [event async for event in thread.run(*inputs, **options)]

    def _model(self) -> str | Model:
        model = self.defaults.model
        return model if isinstance(model, str) else model(self.server.base_url)

    def _engine(self) -> str | ContextEngine:
        engine = self.defaults.engine
        return engine if isinstance(engine, str) else engine()


HarnessMaker: TypeAlias = Callable[
    [Path, Mapping[str, ProviderConfig]], Awaitable[Harness] | Harness
]
"""Makes a harness for a directory and these providers."""

FixtureContext: TypeAlias = AbstractAsyncContextManager[MatrixFixture]


@asynccontextmanager
async def open_fixture(
    name: str, make: HarnessMaker, defaults: ThreadDefaults | None = None
) -> AsyncIterator[MatrixFixture]:
    """Open a fixture for any harness."""
    defaults = defaults or ThreadDefaults()
    with tempfile.TemporaryDirectory(prefix="treadle-matrix-") as scratch:
        place = Path(scratch)
        for each in ("treadle", "home"):
            (place / each).mkdir()
        asked = asyncio.Event()
        first = FakeServer(_script(()), on_request=lambda _: asked.set())
        async with first as server, FakeServer(_script(())) as spare:
            made = make(place, providers(server, spare, defaults))
            harness = await made if inspect.isawaitable(made) else made
            try:
                yield MatrixFixture(name, place, server, spare, harness, defaults, asked)
            finally:
                if isinstance(harness, Closes):
                    await harness.close()


def treadle_fixture(defaults: ThreadDefaults | None = None) -> FixtureContext:
    """Open the fixture of Treadle's own loop."""
    from ...harness.loop import LoopHarness

    return open_fixture("treadle", lambda *_: LoopHarness(backoff=Backoff(retries=0)), defaults)


def codex_fixture(defaults: ThreadDefaults | None = None) -> FixtureContext:
    """Open the fixture of the real Codex app-server."""

    def make(place: Path, reached: Mapping[str, ProviderConfig]) -> Harness:
        from ...harness.codex.harness import CodexHarness

        return CodexHarness(home=place / "treadle", environ=environ(place), providers=reached)

    return open_fixture("codex", make, defaults)


def providers(
    server: FakeServer, spare: FakeServer, defaults: ThreadDefaults | None = None
) -> dict[str, ProviderConfig]:
    """Return the loopback servers as the only providers."""
    reached = {"openai": _provider(server), "spare": _provider(spare)}
    model = (defaults or ThreadDefaults()).model
    if isinstance(model, str) and (provider := model.partition(":")[0]) not in reached:
        # Asked in the provider's own format; the server speaks them all.
        reached[provider] = ProviderConfig(base_url=server.base_url, key=SECRET, retries=0)
    return reached


def environ(place: Path) -> dict[str, str]:
    """Return an environment with a search path and a home only."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(place / "home")}


def answers(given: Mapping[str, Any], name: str = "answers") -> Sequence[Mapping[str, Any]]:
    """Return the scripted answers that a row gives."""
    found: Sequence[Mapping[str, Any]] = given.get(name, ())
    return found


def _provider(server: FakeServer) -> ProviderConfig:
    return ProviderConfig(api="responses", base_url=server.base_url, key=SECRET, retries=0)


def _script(data: Sequence[AnswerData]) -> Script:
    found = (each if isinstance(each, Answer) else convert(dict(each), Answer) for each in data)
    return Script(answers=tuple(found))
