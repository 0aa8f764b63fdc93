"""Whole turns with a provider of a name: a real thread, a fake server, raw answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from treadle import Thread
from treadle.harness.loop import LoopHarness
from treadle.models.providers import ProviderConfig
from treadle.models.retry import Backoff
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script
from treadle.testing.thread_keywords import open_keywords
from treadle.tools.decorator import tool

from ..harness.scenes import Clock

SSE = {"content-type": "text/event-stream"}


@tool
async def look(at: str = "") -> str:
    """Looks."""
    return f"seen {at}".strip()


def chat_answer(*deltas: dict[str, Any], finish: str = "stop") -> Answer:
    """An answer of Chat Completions, delta by delta."""
    chunks: list[dict[str, Any]] = [{"delta": delta} for delta in deltas]
    chunks.append({"delta": {}, "finish_reason": finish})
    events = [{"id": "c1", "choices": [{"index": 0, **chunk}]} for chunk in chunks]
    lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    return Answer(body=f"{lines}data: [DONE]\n\n", headers=SSE)


def chat_call(index: int, name: str, **fields: Any) -> dict[str, Any]:
    """The whole of a call, in one delta."""
    function = {"name": name, "arguments": "{}"}
    call = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
    return {"tool_calls": [{**call, **fields}]}


@asynccontextmanager
async def provider_thread(
    place: Path,
    model: str,
    *answers: Answer,
    config: ProviderConfig | None = None,
    clock: Clock | None = None,
    providers: dict[str, ProviderConfig] | None = None,
    **options: Any,
) -> AsyncIterator[tuple[Thread, FakeServer]]:
    """A thread on `model`, whose provider is a fake server."""
    provider = model.partition(":")[0]
    for name in ("home", "project"):
        (place / name).mkdir(exist_ok=True)
    backoff = Backoff(retries=5, sleep=(clock or Clock()).sleep, random=lambda: 0.5)
    async with FakeServer(Script(answers=answers)) as server:
        reached = ProviderConfig(base_url=server.base_url, key="sk-known").with_overrides(config)
        given: dict[str, Any] = {
            "model": model,
            "home": place / "home",
            "cwd": place / "project",
            "tools": (look,),
            "providers": {provider: reached, **(providers or {})},
            "environ": {},
            "harness": LoopHarness(backoff=backoff),
            "sandbox": "danger-full-access",
            "approval": "never",
            **options,
        }
        async with Thread.open(**open_keywords(**given)) as thread:
            yield thread, server


async def say(thread: Thread, text: str) -> list[Any]:
    """Every event of a turn."""
    return [event async for event in thread.run(text)]
