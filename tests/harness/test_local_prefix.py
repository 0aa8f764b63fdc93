"""What a local server can keep between requests: measured on the bytes that it was really sent.

A proxy stands before the server, as a person would put one there to look. It keeps each body, and
does what llama.cpp does with one slot: it compares the conversation with the one before and counts
the beginning that both have in common.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.harness.scenes import call, hear, last
from treadle import Rights, Routing, Thread, tool
from treadle.core.loopback import LoopbackRequest
from treadle.models.providers import ProviderConfig
from treadle.testing.fake.server import FakeServer, common_prefix
from treadle.testing.script import Answer, Script


@tool
async def look(path: str) -> str:
    """Looks."""
    return f"{path} has forty lines, and each is as long as this one. " * 8


class RecordingProxy(FakeServer):
    """Keeps what was sent, and what one slot of llama.cpp would have had of it."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(Script(answers=answers), apis=("chat",), on_request=self._record)
        self.prompts: list[bytes] = []

    def _record(self, request: LoopbackRequest) -> None:
        if request.body:
            self.prompts.append(rendered(json.loads(request.body)))

    @property
    def shares(self) -> list[float]:
        """How much of each prompt but the first stood in the slot already."""
        return [
            common_prefix(before, after) / len(before) for before, after in pairwise(self.prompts)
        ]


def rendered(body: dict[str, Any]) -> bytes:
    """The prompt as a template makes it: tools first, then message after message."""
    parts = [json.dumps(body.get("tools", [])), *map(json.dumps, body["messages"])]
    return "\n".join(parts).encode()


@asynccontextmanager
async def local(
    place: Path, proxy: RecordingProxy, thread: str | None = None
) -> AsyncIterator[Thread]:
    routing = Routing(environ={}, providers={"local": ProviderConfig(base_url=proxy.base_url)})
    async with Thread.open(
        thread,
        model="local:tiny",
        cwd=place,
        home=place / "home",
        tools=(look,),
        rights=Rights(sandbox="read-only", approval="never"),
        routing=routing,
    ) as opened:
        yield opened


async def test_each_request_begins_with_all_of_the_one_before(tmp_path: Path):
    answers = [
        Answer(calls=(call("look", path="a.py"),)),
        Answer(text='<tool_call>{"name": "look", "arguments": {"path": "b.py"}}</tool_call>'),
        Answer(text="Both are fine."),
        Answer(text="Yes."),
        Answer(calls=(call("look", path="c.py"),)),
        Answer(text="That too."),
    ]
    async with RecordingProxy(*answers) as proxy:
        async with local(tmp_path, proxy) as thread:
            await hear(thread, "look at both")
            await hear(thread, "sure?")
            name = thread.id
        async with local(tmp_path, proxy, name) as thread:  # as another process would go on
            assert last(await hear(thread, "and c.py?")).text == "That too."
            rows = await thread.log.index.rows(thread.id)
    assert len(proxy.prompts) == 6
    assert proxy.shares == [1.0] * 5
    assert all(row.difference is None for row in rows)


async def test_two_threads_on_one_slot_share_what_every_thread_begins_with(tmp_path: Path):
    async with RecordingProxy(Answer(text="One."), Answer(text="Two.")) as proxy:
        for text in ("first", "second"):
            async with local(tmp_path, proxy) as thread:
                await hear(thread, text)
    one, two = proxy.prompts
    told = json.dumps({"role": "user", "content": "first"}).encode()
    assert common_prefix(one, two) >= len(one) - len(told)
