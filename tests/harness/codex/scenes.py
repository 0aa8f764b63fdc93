"""Scenes: threads on the real Codex app-server, in front of a scripted model."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import structs

from tests.harness.codex.warm_home import warm_home
from tests.harness.scenes import hear, last, of
from treadle import Thread
from treadle.harness.codex.binding import TOPIC
from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.codex.harness import CodexHarness
from treadle.models.providers import ProviderConfig
from treadle.prompt.codex_import import find_codex
from treadle.testing.appserver import AppScript, scripted_command
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script
from treadle.testing.thread_keywords import open_keywords

__all__ = [
    "MODEL",
    "Stage",
    "codex",
    "drop_binding",
    "hear",
    "last",
    "of",
    "open_stage",
    "request_items",
    "talk",
    "use_scripted_server",
]

MODEL = "openai:gpt-5.5"

Items = list[dict[str, Any]]


@dataclass
class Stage:
    """A model server, a harness in front of it, and a place for threads."""

    place: Path
    server: FakeServer
    harness: CodexHarness
    environ: dict[str, str] = field(default_factory=dict)
    providers: dict[str, ProviderConfig] = field(default_factory=dict)
    """How the server is reached."""

    @property
    def requests(self) -> list[Any]:
        """What the model was asked."""
        return self.server.requests

    @asynccontextmanager
    async def thread(self, thread: str | None = None, **options: Any) -> AsyncIterator[Thread]:
        """A thread on the harness."""
        given: dict[str, Any] = {
            "model": MODEL,
            "harness": self.harness,
            "home": self.place / "treadle",
            "cwd": self.place / "project",
            "sandbox": "danger-full-access",
            "approval": "never",
            "environ": self.environ,
            "providers": self.providers,
        }
        async with Thread.open(thread, **open_keywords(**(given | options))) as opened:
            yield opened


def providers(base_url: str, retries: int = 0) -> dict[str, ProviderConfig]:
    """The loopback server as the only provider."""
    return {
        "openai": ProviderConfig(
            api="responses", base_url=base_url, key="sk-planted", retries=retries
        )
    }


def surroundings(place: Path) -> dict[str, str]:
    """An environment without keys, with a home of its own."""
    for name in ("home", "treadle", "project"):
        (place / name).mkdir(parents=True, exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(place / "home")}


def codex() -> Path:
    """The binary that the tests run: the installed one, or what `TREADLE_TEST_CODEX` names."""
    named = os.environ.get("TREADLE_TEST_CODEX")
    return Path(named) if named else find_codex()


@asynccontextmanager
async def open_stage(
    place: Path,
    *answers: Answer,
    options: CodexOptions | None = None,
    script: Script | None = None,
    rest: str = "fine",
    retries: int = 0,
    base_url: str = "",
) -> AsyncIterator[Stage]:
    """A stage with a scripted model; when the script is over it says `rest`.

    With a `base_url` the model is looked for there.
    """
    environ = surroundings(place)
    options = options or CodexOptions()
    if options.binary is None:
        options = structs.replace(options, binary=codex())
        warm_home(place / "treadle", codex())
    told = script or Script(answers=(*answers, *(Answer(text=rest) for _ in range(400))))
    async with FakeServer(told) as server:
        known = providers(base_url or server.base_url, retries)
        harness = CodexHarness(options, home=place / "treadle", environ=environ, providers=known)
        try:
            yield Stage(place, server, harness, environ, known)
        finally:
            await harness.close()


async def use_scripted_server(stage: Stage, script: AppScript) -> Path:
    """Let a scripted app-server stand in for the real one; where it keeps what it hears."""
    servers, place = stage.harness.servers, stage.place / "unreal"
    server = await servers.server(servers.access("openai"), unlimited=False)
    server.command = scripted_command(script, place)
    return place


async def drop_binding(thread: Thread) -> None:
    """Let the next turn start another Codex thread."""
    rows = await thread.store.outbox(thread=thread.id, topic=TOPIC)
    await thread.log.queue(settle=[row.number for row in rows])


async def talk(thread: Thread, *said: str) -> list[str]:
    """Say things, one turn each; what was answered."""
    return [last(await hear(thread, each)).text for each in said]


MARKS = ("<skills_instructions>", "<permissions", "<environment_context>", "# AGENTS.md")


def request_items(request: Any, *, marks: Sequence[str] = MARKS) -> Items:
    """The items of a request beyond Codex's own instructions and context."""
    items: Items = request.payload["input"][1:]
    return [item for item in items if not _own(item, marks)]


def _own(item: dict[str, Any], marks: Sequence[str]) -> bool:
    if item["type"] != "message" or item["role"] == "assistant":
        return False
    return all(part.get("text", "").startswith(tuple(marks)) for part in item["content"])


def roles_and_texts(items: Items) -> list[tuple[str, str]]:
    """Who said what."""
    return [(_who(item), _what(item)) for item in items]


def _who(item: dict[str, Any]) -> str:
    return str(item["role"] if item["type"] == "message" else item["type"])


def _what(item: dict[str, Any]) -> str:
    if item["type"] == "message":
        return "\n".join(part.get("text", part["type"]) for part in item["content"])
    return str(item.get("output", item.get("arguments", item.get("input", ""))))


Choose = Callable[[Any], bool]
