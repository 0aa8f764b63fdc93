from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.provider import STREAM, Villain, modelled
from treadle import Rights, Thread, tool
from treadle.harness.events import TurnCompleted
from treadle.harness.loop import LoopHarness
from treadle.models.providers import Api
from treadle.models.retry import Backoff


def events(*payloads: bytes) -> bytes:
    return STREAM + b"".join(b"data: %b\n\n" % payload for payload in payloads)


def done(*calls: bytes) -> bytes:
    items = (b'{"type":"response.output_item.done","item":%b}' % call for call in calls)
    return events(*items, b'{"type":"response.completed","response":{"id":"r"}}')


def call(item: bytes = b"", note: bytes = b"a") -> bytes:
    return b'{"type":"function_call",%b"call_id":"c","name":"keep","arguments":%b}' % (
        item,
        b'"{\\"note\\":\\"%b\\"}"' % note,
    )


def choices(*calls: bytes) -> bytes:
    chunks = (b'{"id":"x","choices":[{"delta":{"tool_calls":[%b]}}]}' % each for each in calls)
    return events(*chunks, b'{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}', b"[DONE]")


def choice(index: int, note: bytes = b"a") -> bytes:
    return b'{"index":%d,"id":"c","function":{"name":"keep","arguments":{"note":"%b"}}}' % (
        index,
        note,
    )


def blocks(*notes: bytes) -> bytes:
    start = (
        b'{"type":"content_block_start","index":%d,"content_block":'
        b'{"type":"tool_use","id":"c","name":"keep","input":{"note":"%b"}}}'
    )
    stop = b'{"type":"content_block_stop","index":%d}'
    parts = [
        each % at for at, note in enumerate(notes) for each in (start.replace(b"%b", note), stop)
    ]
    return events(
        b'{"type":"message_start","message":{"id":"m"}}', *parts, b'{"type":"message_stop"}'
    )


SAME: dict[str, tuple[Api, bytes]] = {
    "under another item id": ("responses", done(call(b'"id":"f1",'), call(b'"id":"f2",'))),
    "without an item id": ("responses", done(call(), call())),
    "under the same item id": ("responses", done(call(b'"id":"f1",'), call(b'"id":"f1",'))),
    "at another index": ("chat", choices(choice(0), choice(1))),
    "in another block": ("messages", blocks(b"a", b"a")),
}
OTHER: dict[str, tuple[Api, bytes]] = {
    "under another item id": (
        "responses",
        done(call(b'"id":"f1",'), call(b'"id":"f2",', b"b")),
    ),
    "at another index": ("chat", choices(choice(0), choice(1, b"b"))),
    "in another block": ("messages", blocks(b"a", b"b")),
}


async def kept(place: Path, api: Api, answer: bytes) -> tuple[list[str], TurnCompleted]:
    """What the tool was called with, and how the turn ended."""
    notes: list[str] = []

    @tool
    async def keep(note: str) -> str:
        """Keeps a note."""
        notes.append(note)
        return "kept"

    async with (
        modelled(Villain(api, [answer])) as model,
        Thread.open(
            model=model,
            home=place / "home",
            cwd=place,
            tools=(keep,),
            rights=Rights(sandbox="danger-full-access", approval="never"),
            harness=LoopHarness(backoff=Backoff(retries=0)),
        ) as thread,
    ):
        heard = [event async for event in thread.run("go")]
    (end,) = (event for event in heard if isinstance(event, TurnCompleted))
    return notes, end


@pytest.mark.parametrize("where", SAME)
async def test_a_call_that_an_answer_repeats_runs_once(where: str, tmp_path: Path):
    notes, end = await kept(tmp_path, *SAME[where])
    assert (notes, end.status, end.text) == (["a"], "completed", "fine")


@pytest.mark.parametrize("where", OTHER)
async def test_a_call_with_the_id_of_another_ends_the_answer(where: str, tmp_path: Path):
    notes, end = await kept(tmp_path, *OTHER[where])
    assert (notes, end.status) == (["a"], "failed")
    assert "two calls with the id 'c'" in (end.error or "")
