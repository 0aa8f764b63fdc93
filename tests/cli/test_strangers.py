from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from treadle.thread.thread import Thread

from .terminal import Treadle

SAID = b'{"type":"message","role":"user","content":[{"type":"input_text","text":"more"}]}'

NEWER = {
    "a kind": ("wormhole", b'{"x":1}', {}),
    "a reason": ("epoch", b'{"reason":"quantum"}', {}),
    "a field": ("settings", b'{"changes":{"a":1},"more":2}', {}),
    "a flag": ("item", SAID, {"flags": 64}),
    "a writer": ("item", SAID, {"provenance": '{"kind":"martian"}'}),
    "an event": ("item", SAID, {"events": '[{"type":"landing","at":1}]'}),
    "a fragment": ("item", SAID, {"fragments": '[{"id":"mood","snapshot":{"a":1},"new":2}]'}),
    "an item": ("item", b'{"type":"hologram","z":1}', {}),
    "an end": ("response", b'{"request":3,"status":"paused"}', {}),
    "a level": ("notice", b'{"level":"loud","text":"psst"}', {}),
}

UNUSABLE = {
    "a recipe of a newer Treadle": (
        "epoch",
        b'{"reason":"publish","head":"sha256:00","recipe":{"parts":[{"type":"warp"}]}}',
        "says what this Treadle does not know",
    ),
    "an item that is no JSON": ("item", b"not json", "is damaged"),
    "an item that is no UTF-8": ("item", b'{"type":"\xff"}', "is damaged"),
    "an item that is gone": ("item", None, "is damaged"),
    "a rollback that is no JSON": ("rollback", b"{", "is damaged"),
}


async def thread_with_one_turn(home: Path) -> str:
    async with Thread.open(model="openai:gpt-5.5", home=home, cwd=home) as thread:
        await thread.log.turns.admit("hello")
        return thread.id


def written_by_a_stranger(
    treadle: Treadle, kind: str, body: bytes | None, **columns: object
) -> str:
    thread = asyncio.run(thread_with_one_turn(treadle.home))
    with closing(sqlite3.connect(treadle.home / "log.db")) as log, log:
        number, last = log.execute("SELECT number, last FROM threads").fetchone()
        row = {"id": number << 32 | last + 1, "kind": kind, "body": body, **columns}
        row = {"turn": 1, "step": 0, "time": 1, "tokens": 0, "flags": 0, **row}
        places = ", ".join("?" * len(row))
        log.execute(
            f"INSERT INTO entries ({', '.join(row)}) VALUES ({places})", tuple(row.values())
        )
        log.execute("UPDATE threads SET last = last + 1")
    return thread


@pytest.mark.parametrize(("kind", "body", "columns"), NEWER.values(), ids=NEWER)
def test_what_only_a_newer_treadle_knows_stops_nobody(treadle, kind, body, columns):
    thread = written_by_a_stranger(treadle, kind, body, **columns)
    treadle("show", thread, "--all")
    treadle("show", thread)
    stored = treadle("show", thread, "--json").json_lines[-1]
    assert stored["item" if kind == "item" else "control"] == json.loads(body)
    assert treadle("threads", "--search", "hello").lines[1:]
    assert b'"text":"hello"' in treadle("prompt", "--thread", thread, "--json").out
    treadle("fork", thread)
    treadle("rewind", thread)


@pytest.mark.parametrize(("kind", "body", "why"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_entry_that_cannot_be_used_is_named_and_can_be_left_behind(treadle, kind, body, why):
    thread = written_by_a_stranger(treadle, kind, body, turn=2)
    said = treadle.refused("prompt", "--thread", thread)
    assert f"entry 5 of thread '{thread}' ({kind}) {why}" in said
    assert "go on from an earlier step with `treadle fork --at`" in said
    fork = treadle("fork", thread, "--at", "4").lines[0]
    assert b'"text":"hello"' in treadle("prompt", "--thread", fork, "--json").out


@pytest.mark.parametrize("body", [b"not json", b'{"type":"\xff"}', None])
def test_a_damaged_item_is_shown_and_searched_around(treadle, body):
    thread = written_by_a_stranger(treadle, "item", body)
    assert "unreadable item" in treadle("show", thread).text
    text = (body or b"").decode(errors="replace")
    assert treadle("show", thread, "--json").json_lines[-1]["item"] == text
    assert treadle("threads", "--search", "hello").lines[1:]
