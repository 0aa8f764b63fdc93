"""Under Codex too a known key is in nothing that Treadle keeps or tells."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.harness.codex.scenes import codex
from tests.harness.scenes import call, of
from tests.thread.test_known_keys import KEY, Scene, deltas
from treadle import Thread
from treadle.core.redact import BLANK
from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.codex.harness import CodexHarness
from treadle.harness.events import ReasoningDelta, TextDelta, TurnCompleted
from treadle.models.providers import ProviderConfig
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script
from treadle.testing.thread_keywords import open_keywords
from treadle.tools.decorator import tool


class CodexScene(Scene):
    """A scene on the real app-server, whose own history is left out of what is looked at."""

    def is_kept_by_us(self, path: Path) -> bool:
        own = self.home / "codex" / "home"
        if not path.is_relative_to(own):
            return True
        inside = path.relative_to(own)
        return inside.parts[0] != "sessions" and not path.name.startswith("thread_history")

    @asynccontextmanager
    async def open(self, *answers: Answer, **options: Any) -> AsyncIterator[Thread]:
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.place)}
        async with FakeServer(Script(answers=(*answers, Answer(text="done", times=0)))) as server:
            config = ProviderConfig(api="responses", base_url=server.base_url, key=KEY, retries=0)
            runs = CodexHarness(
                CodexOptions(binary=codex()),
                home=self.home,
                environ=environ,
                providers={"openai": config},
            )
            given: dict[str, Any] = {
                "model": "openai:gpt-5.5",
                "home": self.home,
                "cwd": self.project,
                "sandbox": "danger-full-access",
                "approval": "never",
                "environ": environ,
                "providers": {"openai": config},
                "harness": runs,
            }
            try:
                async with Thread.open(**open_keywords(**(given | options))) as thread:
                    yield thread
            finally:
                await runs.close()
            self.bodies += [request.body for request in server.requests]


async def test_what_the_model_says_and_runs(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "leak.txt").write_text(f"{KEY}\n" * 50)
    scene = CodexScene(tmp_path)
    said = deltas("output_text", "files ", KEY[:9], KEY[9:], " s", item_id="msg_1")
    await scene.run(
        Answer(calls=(call("exec_command", cmd="cat leak.txt; sleep 0.2", login=False),)),
        Answer(calls=(call("exec_command", cmd=f"echo {KEY[:12]}; echo {KEY}", login=False),)),
        Answer(events=said, reasoning=f"is it {KEY}", text=f"it is {KEY}"),
        said=("go",),
    )
    assert of(scene.events, TurnCompleted)[-1].text == f"it is {BLANK}"
    assert KEY[9:] not in scene.text(TextDelta) + scene.text(ReasoningDelta)
    scene.bodies = [b"{}"]  # what Codex sends is Codex's to decide
    scene.check()


async def test_what_treadle_gives_to_codex(tmp_path):
    @tool(description=f"Logs in with {KEY}.")
    async def log_in(name: str) -> str:
        return f"{name} is in with {KEY}"

    scene = CodexScene(tmp_path)
    calls = Answer(calls=(call("log_in", name=f"me {KEY}"),))
    await scene.run(calls, said=(f"log in with {KEY}",), tools=(log_in,))
    # A call that the model writes reaches its provider again, and Codex's own history.
    asked = scene.bodies[0]
    assert KEY.encode() not in asked
    assert f"me {BLANK} is in with {BLANK}" in scene.bodies[-1].decode()
    scene.bodies = [asked]
    scene.check()
