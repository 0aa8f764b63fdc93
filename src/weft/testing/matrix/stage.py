"""Stages: a harness in front of a scripted model, for rows to be played on.

Owns the loopback server, the home and the harness that a run of the matrix shares.
Invariant: a row finds a clean script and an empty record, whatever was played before.
"""

from __future__ import annotations

import inspect
import itertools
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from ...harness.contract import Closes, Harness
from ...harness.events import Event
from ...models.connect import ProviderConfig
from ..fake import FakeServer
from ..script import Answer, Script

if TYPE_CHECKING:
    from ...thread import Thread

__all__ = ["MODEL", "SECRET", "HarnessMaker", "Stage", "codex_stage", "opened_stage", "weft_stage"]

MODEL = "openai:gpt-5.5"
SECRET = "sk-planted-0123456789abcdef"  # noqa: S105 - it opens nothing
"""The key of the loopback provider; it must show up nowhere but in the request."""


@dataclass(slots=True)
class Stage:
    """Where rows are played."""

    name: str
    place: Path
    server: FakeServer
    harness: Harness
    _numbers: Any = field(default_factory=itertools.count)

    @property
    def providers(self) -> dict[str, ProviderConfig]:
        """How the loopback server is reached."""
        return providers(self.server)

    @property
    def environ(self) -> dict[str, str]:
        """An environment without keys."""
        return environ(self.place)

    def script(self, *answers: Answer | Mapping[str, Any]) -> None:
        """What the model says from now on."""
        told = [
            each if isinstance(each, Answer) else msgspec.convert(dict(each), Answer)
            for each in answers
        ]
        self.server.play(Script(answers=tuple(told)))

    @asynccontextmanager
    async def thread(self, thread: str | None = None, **options: Any) -> AsyncIterator[Thread]:
        """A thread on the harness, in a directory of its own."""
        from ...thread import Thread

        project = self.place / f"project-{next(self._numbers)}"
        project.mkdir(exist_ok=True)
        given: dict[str, Any] = {
            "model": MODEL,
            "harness": self.harness,
            "home": self.place / "weft",
            "cwd": project,
            "sandbox": "danger-full-access",
            "approval": "never",
            "environ": self.environ,
            "providers": self.providers,
        }
        async with Thread.open(thread, **(given | options)) as opened:
            yield opened

    async def turn(self, thread: Thread, *said: Any, **options: Any) -> list[Event]:
        """Run a turn; all that was heard."""
        return [event async for event in thread.run(*said, **options)]


HarnessMaker: TypeAlias = Callable[[Path, FakeServer], Awaitable[Harness] | Harness]
"""Makes a harness for a place and the server in front of which it works."""


@asynccontextmanager
async def opened_stage(name: str, make: HarnessMaker) -> AsyncIterator[Stage]:
    """A stage for any harness."""
    with tempfile.TemporaryDirectory(prefix="weft-matrix-") as scratch:
        place = Path(scratch)
        for each in ("weft", "home"):
            (place / each).mkdir()
        async with FakeServer(Script(answers=())) as server:
            made = make(place, server)
            harness = await made if inspect.isawaitable(made) else made
            try:
                yield Stage(name, place, server, harness)
            finally:
                if isinstance(harness, Closes):
                    await harness.close()


def weft_stage() -> Any:
    """The stage of Weft's own loop."""
    from ...harness.loop import LoopHarness
    from ...models.retry import Backoff

    return opened_stage("weft", lambda *_: LoopHarness(patience=Backoff(retries=0)))


def codex_stage() -> Any:
    """The stage of the real Codex app-server."""

    def make(place: Path, server: FakeServer) -> Harness:
        from ...harness.codex.harness import CodexHarness

        return CodexHarness(
            home=place / "weft", environ=environ(place), providers=providers(server)
        )

    return opened_stage("codex", make)


def providers(server: FakeServer) -> dict[str, ProviderConfig]:
    """The loopback server as the one provider."""
    return {
        "openai": ProviderConfig(api="responses", base_url=server.base_url, key=SECRET, retries=0)
    }


def environ(place: Path) -> dict[str, str]:
    """A search path, a home, and nothing else."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(place / "home")}


def answers(given: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The model's part in what a row gives."""
    told: Sequence[Mapping[str, Any]] = given.get("answers", ())
    return told
