from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from treadle.core.entries import Draft
from treadle.store import Change, SqliteStore
from treadle.thread.thread import Thread

from .test_threads import tidy

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31mred \u202eevil \r gone \x00 \x7f"
UNSAFE = ("\x1b", "\x9b", "\x07", "\u202e", "\x00", "\x7f", "\r")


@pytest.mark.usefixtures("worked")
def test_a_thread_reads_as_a_conversation(treadle):
    assert tidy(treadle("show", "last").text) == snapshot("""\
user · TIME
  make the test pass

call exec_command · TIME
  {"cmd":"make test"}

output exec_command · TIME
  line 0
  line 1
  line 2
  line 3
  line 4
  line 5
  line 6
  line 7
  line 8
  line 9
  line 10
  line 11
  … 28 more lines

assistant · TIME
  It passes.

notice warning · TIME
  the sandbox is off

user · TIME
  write the changelog

assistant · TIME
  Written.

""")


@pytest.mark.usefixtures("worked")
def test_all_adds_context_control_entries_and_what_was_rolled_back(treadle):
    shown = tidy(treadle("show", "last", "--all").text)
    shown = re.sub(r"\d+ tokens", "N tokens", shown)
    headings = [line for line in shown.splitlines() if line.startswith("#")]
    assert headings == snapshot(
        [
            "#1 1.0 epoch start · TIME",
            "#2 1.0 developer · TIME · context · tells permissions, model · N tokens",
            "#3 1.0 user · TIME · context · tells agents_md · N tokens",
            "#4 1.0 user · TIME · context · tells environment · N tokens",
            "#5 1.0 user · TIME · N tokens",
            "#6 1.1 request · TIME",
            "#7 1.1 call exec_command · TIME · N tokens",
            "#8 1.1 response completed · TIME · $0.0100",
            "#9 1.1 output exec_command · TIME · N tokens",
            "#10 1.2 request · TIME",
            "#11 1.2 assistant · TIME · N tokens",
            "#12 1.2 response completed · TIME · $0.0019",
            "#13 1.2 notice warning · TIME",
            "#14 2.0 user · TIME · N tokens · rolled back",
            "#15 2.1 request · TIME · rolled back",
            "#16 2.1 assistant · TIME · N tokens · rolled back",
            "#17 2.1 response completed · TIME · rolled back",
            "#18 2.1 rollback · TIME",
            "#19 3.0 user · TIME · N tokens",
            "#20 3.1 request · TIME",
            "#21 3.1 assistant · TIME · N tokens",
            "#22 3.1 response completed · TIME",
        ]
    )


def test_json_is_one_object_per_entry_with_its_bytes(treadle, worked):
    lines = treadle("show", "last", "--json").json_lines
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    hidden = [line["seq"] for line in lines if not line["visible"]]
    (rollback,) = [line for line in lines if line["kind"] == "rollback"]
    assert hidden == list(range(rollback["control"]["cut"], rollback["seq"]))
    said = next(
        line for line in lines if line.get("item", {}).get("role") == "user" and not line["flags"]
    )
    assert said == {
        "seq": said["seq"],
        "kind": "item",
        "turn": 1,
        "step": 0,
        "time": said["time"],
        "tokens": said["tokens"],
        "flags": [],
        "visible": True,
        "thread": worked,
        "id": said["id"],
        "source_id": None,
        "fragments": [],
        "provenance": None,
        "events": [],
        "origin": None,
        "item": {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "make the test pass"}],
        },
    }
    (call,) = [line for line in lines if line.get("item", {}).get("type") == "function_call"]
    assert call["origin"] == {
        "provider": "openai",
        "api": "responses",
        "model": "gpt-5.5",
        "harness": "treadle",
    }
    context = [line for line in lines if line["flags"] == ["contextual"]]
    assert context[0]["fragments"][0]["id"] == "permissions"


@pytest.mark.usefixtures("worked")
def test_a_limit_shows_the_newest(treadle):
    every = treadle("show", "last", "--json").json_lines
    assert treadle("show", "last", "--json", "--limit", "3").json_lines == every[-3:]
    text = tidy(treadle("show", "last", "--limit", "2").text)
    assert text == snapshot("""\
user · TIME
  write the changelog

assistant · TIME
  Written.

""")
    around = treadle("show", "last", "--json", "--limit", "12").json_lines
    assert around == every[-12:]
    assert not all(line["visible"] for line in around)


async def store_raw(home: Path, bodies: list[bytes]) -> str:
    async with await SqliteStore.open(home) as store:
        info = await store.create()
        lease = await store.acquire(info.id)
        await store.commit(lease, Change(entries=tuple(Draft(body=body) for body in bodies)))
        return info.id


def said(text: str) -> bytes:
    content = [{"type": "input_text", "text": text}]
    return json.dumps({"type": "message", "role": "user", "content": content}).encode()


def test_hostile_text_never_reaches_the_terminal_raw(treadle):
    raw = json.dumps(
        {
            "type": "message",
            "role": "user\x1b[1m",
            "content": [{"type": "input_text", "text": HOSTILE}],
        },
        ensure_ascii=False,
    ).encode()
    call = {"type": "function_call", "name": HOSTILE, "arguments": HOSTILE, "call_id": HOSTILE}
    output = {"type": "function_call_output", "call_id": HOSTILE, "output": HOSTILE}
    bodies = [raw, *(json.dumps(item).encode() for item in (call, output, {"type": HOSTILE}))]
    thread = asyncio.run(store_raw(treadle.home, bodies))
    for args in (["show", thread], ["show", thread, "--all"], ["show", thread, "--json"]):
        text = treadle(*args).text
        assert not [sign for sign in UNSAFE if sign in text], args
    assert "\\x1b[2J" in treadle("show", thread).text
    (line, *_) = treadle("show", thread, "--json").json_lines
    assert line["item"]["content"][0]["text"] == HOSTILE


def test_hostile_titles_and_inputs_are_listed_safely(treadle):
    treadle("new", "--title", "a\x1b[31m title\x9b1m")
    treadle("new", "a\x1b[31m input")
    for args in (
        ["threads"],
        ["threads", "--json"],
        ["threads", "--search", "input"],
        ["prompt", "\x1b[2J"],
    ):
        text = treadle(*args).text
        assert not [sign for sign in UNSAFE if sign in text], args
    assert "\x1b" not in treadle.refused("show", "\x1b[2J")


def test_bytes_that_are_no_utf8_are_not_stored(treadle):
    treadle("new", b"caf\xe9", "--title", b"\xff")
    (listed,) = treadle("threads", "--json").json
    assert listed["title"] == "�"
    assert "caf�" in treadle("show", "last").text


def test_an_item_that_cannot_be_read_is_shown_all_the_same(treadle):
    lone = b'{"type":"message","role":"user","content":[{"type":"input_text","text":"\\ud800"}]}'
    broken_lines = b'{"type":"new_thing",\n "x": [1,\r\n2]}'
    thread = asyncio.run(store_raw(treadle.home, [lone, broken_lines]))
    assert tidy(treadle("show", thread).text) == snapshot("""\
unreadable item · TIME
  {"type":"message","role":"user","content":[{"type":"input_text","text":"\\ud800"}]}

new_thing · TIME

""")
    first, second = treadle("show", thread, "--json").json_lines
    assert first["item"]["content"][0]["text"] == "\ud800"
    assert second["item"] == {"type": "new_thing", "x": [1, 2]}


def test_a_huge_line_of_output_is_cut_and_a_huge_answer_is_not(treadle):
    huge = "x" * 300_000
    output = json.dumps({"type": "function_call_output", "call_id": "c", "output": huge}).encode()
    thread = asyncio.run(store_raw(treadle.home, [said(huge), output]))
    lines = treadle("show", thread).lines
    assert [len(line) for line in lines if line.startswith("  ")] == [300_002, 162]


async def long_thread(home: Path) -> str:
    async with Thread.open(model="openai:gpt-5.5", home=home) as thread:
        bodies = [said(f"entry {n}") for n in range(2_000)]
        await thread.store.commit(
            thread.log.lease,
            Change(entries=tuple(Draft(body=body, turn=n) for n, body in enumerate(bodies, 1))),
        )
        await thread.revert(1_000)
        await thread.log.note("the end")
        return thread.id


def test_a_long_thread_is_shown_page_by_page_without_what_was_rolled_back(treadle):
    thread = asyncio.run(long_thread(treadle.home))
    shown = [line.strip() for line in treadle("show", thread).lines if line.startswith("  ")]
    assert shown == [*(f"entry {n}" for n in range(1_000)), "the end"]
    newest = [
        line.strip() for line in treadle("show", thread, "--limit", "3").lines if line[:2] == "  "
    ]
    assert newest == ["entry 998", "entry 999", "the end"]
