from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from treadle.core.entries import Draft
from treadle.core.items import InputText, Message, encode_item
from treadle.store.contract import Change
from treadle.store.memory import MemoryStore
from treadle.store.sqlite import SqliteStore
from treadle.transfer.import_report import ImportCounts
from treadle.transfer.jsonl import CHUNK_BYTES, read_lines, take_chunk

from .scenes import FORMATS, bring, describe_thread, essence, sample, states, thread_in, write


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def user(key: str | None, text: str, thread: str = "t") -> dict[str, str]:
    given = {} if key is None else {"id": key}
    return {"thread": thread, **given, "role": "user", "content": text}


async def go_on(store: MemoryStore, thread: str) -> None:
    """Add a message of our own to a thread."""
    lease = await store.acquire(thread)
    body = encode_item(Message(role="user", content=(InputText("our own"),)))
    await store.commit(lease, Change(entries=(Draft(body=body),)))
    await lease.release()


@pytest.mark.parametrize("name", FORMATS)
async def test_importing_again_adds_nothing(store, name):
    first = await bring(store, sample(name))
    before = [await store.read(each.thread) for each in first.threads]
    again = await bring(store, sample(name))
    assert [await store.read(each.thread) for each in again.threads] == before
    assert (again.added, again.present) == (0, first.added)
    assert {each.state for each in again.threads} == {"unchanged"}
    assert len(await store.threads()) == len(first.threads)


@pytest.mark.parametrize("name", ["codex", "openclaw", "plain"])
async def test_a_file_that_grew_by_a_byte_at_a_time_becomes_the_same_thread(name, tmp_path):
    whole = sample(name).read_bytes()
    straight = MemoryStore()
    expected = await bring(straight, sample(name))
    for cuts in ((cut,) for cut in range(len(whole))) if name == "plain" else _at_lines(whole):
        store, file = MemoryStore(), tmp_path / sample(name).name
        for cut in (*cuts, len(whole)):
            file.write_bytes(whole[:cut])
            report = await bring(store, file, format="jsonl" if name == "plain" else name)
        for each, other in zip(report.threads, expected.threads, strict=True):
            got = essence(await store.read(each.thread))
            assert _aside(got) == _aside(essence(await straight.read(other.thread))), cuts


def _at_lines(whole: bytes) -> list[tuple[int, ...]]:
    """Cuts around every end of a line, and in the middle of every line."""
    ends = [at for at, byte in enumerate(whole) if byte == 10]
    return [(end + shift,) for end in ends for shift in (-30, 0, 1, 2)]


def _aside(entries: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Without the place of what stands between turns: it goes with what was known then."""
    between = [entry[0] == "notice" or entry[4] for entry in entries]
    return [
        (*entry[:2], *entry[4:]) if aside else entry
        for entry, aside in zip(entries, between, strict=True)
    ]


async def test_a_torn_last_line_is_taken_up_when_it_is_whole(store, tmp_path):
    file = tmp_path / "a.jsonl"
    whole = json.dumps(user("a", "one")) + "\n" + json.dumps(user("b", "two")) + "\n"
    file.write_text(whole[:-9])
    first = await bring(store, file)
    assert (first.added, first.torn, first.malformed) == (1, 1, 0)
    file.write_text(whole)
    second = await bring(store, file)
    assert states(second) == [("jsonl:t", "grown", 1, 1)]
    assert (second.torn, second.problems) == (0, ())


async def test_a_broken_line_costs_no_other(store, tmp_path):
    file = tmp_path / "a.jsonl"
    lines = [json.dumps(user("a", "one")), "{nonsense", "[" * 5_000, json.dumps(user("b", "two"))]
    file.write_text("\n".join(lines) + "\n")
    report = await bring(store, file)
    assert (report.added, report.malformed) == (2, 2)
    assert report.problems[0].startswith("line 2 of 'a.jsonl' is not a record")


def test_a_line_that_never_ends_is_skipped(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"a":1}\n' + b"x" * 500 + b"\n" + b'{"b":2}\n')
    counts = ImportCounts()
    lines = list(read_lines(file, counts, longest=100))
    assert [(line.number, line.data) for line in lines] == [(1, b'{"a":1}'), (3, b'{"b":2}')]
    assert (counts.too_long, counts.problems) == (
        1,
        ["line 2 of 'a.jsonl' is 501 bytes long and was skipped; 100 are accepted"],
    )


async def test_a_thread_that_went_on_here_is_left_alone(store, tmp_path):
    file = write(tmp_path / "a.jsonl", user("a", "one"))
    thread = (await bring(store, file)).threads[0].thread
    await go_on(store, thread)
    write(file, user("a", "one"), user("b", "two"))
    report = await bring(store, file)
    assert states(report) == [("jsonl:t", "forked", 1, 1)]
    fork = report.threads[0].thread
    assert (await describe_thread(store, thread)).endswith("user our own")
    assert (await describe_thread(store, fork)).endswith("1.0 -   user one\n2.0 -   user two")
    assert (await store.info(fork)).parent == thread
    assert states(await bring(store, file)) == [("jsonl:t", "unchanged", 0, 2)]


async def test_another_beginning_is_another_thread(store, tmp_path):
    file = write(tmp_path / "a.jsonl", user(None, "one"), user(None, "two"))
    first = (await bring(store, file)).threads[0].thread
    write(file, user(None, "ONE"), user(None, "two"))
    report = await bring(store, file)
    assert states(report) == [("jsonl:t", "apart", 2, 0)]
    assert report.threads[0].thread != first
    assert len(await store.read(first)) == 3


async def test_another_continuation_is_a_fork(store, tmp_path):
    file = write(tmp_path / "a.jsonl", user(None, "one"), user(None, "two"))
    first = (await bring(store, file)).threads[0].thread
    write(file, user(None, "one"), user(None, "TWO"), user(None, "three"))
    report = await bring(store, file)
    assert states(report) == [("jsonl:t", "forked", 2, 1)]
    assert (await store.info(report.threads[0].thread)).parent == first


async def test_pasts_that_take_turns_in_one_file_are_each_known_again(store, tmp_path):
    file = tmp_path / "a.jsonl"
    pasts = [
        [user(None, text) for text in texts]
        for texts in (("one", "two"), ("ONE", "two"), ("one", "TWO"))
    ]
    for past in pasts:
        await bring(store, write(file, *past))
    assert len(await store.threads()) == 3
    for past in (*pasts, *pasts):
        assert states(await bring(store, write(file, *past))) == [("jsonl:t", "unchanged", 0, 2)]


async def test_messages_with_ids_may_come_in_any_order_and_from_any_file(store, tmp_path):
    one = write(tmp_path / "1.jsonl", user("a", "one"), user("b", "two"))
    two = write(tmp_path / "2.jsonl", user("c", "three"), user("a", "one"), user("c", "again"))
    report = await bring(store, one, two)
    assert states(report) == [("jsonl:t", "new", 2, 0), ("jsonl:t", "grown", 1, 2)]
    entries = await store.read(report.threads[0].thread)
    assert [entry.source_id for entry in entries[1:]] == ["a", "b", "c"]
    assert (await bring(store, two, one)).added == 0


async def test_a_session_that_took_another_branch_is_a_fork(store, tmp_path):
    lines = sample("claude").read_text().splitlines(keepends=True)
    file = tmp_path / "session.jsonl"
    upto = next(at for at, line in enumerate(lines) if "paint it green" in line)
    file.write_text("".join(lines[:upto]))
    first = await bring(store, file)
    assert (await describe_thread(store, first.threads[0].thread)).endswith("assistant Red it is.")
    file.write_text("".join(lines))
    second = await bring(store, file)
    main = second.threads[0]
    assert (main.state, main.present) == ("forked", 10)
    assert "Red" not in await describe_thread(store, main.thread)
    assert (await store.info(main.thread)).parent == first.threads[0].thread
    again = await bring(store, file)
    assert {each.state for each in again.threads} == {"unchanged"}


async def test_a_dry_run_tells_and_writes_nothing(store):
    dry = await bring(store, *map(sample, FORMATS), dry=True)
    assert await store.threads() == []
    real = await bring(store, *map(sample, FORMATS))
    assert states(dry) == states(real)
    assert (dry.kept, dry.left_out) == (real.kept, real.left_out)


async def test_a_thread_that_was_made_and_never_filled_is_taken_up(store):
    made = await store.create(title="jsonl:standup")
    report = await bring(store, sample("plain"))
    brought = thread_in(report, "standup")
    assert (brought.thread, brought.state) == (made.id, "new")
    assert (await store.info(made.id)).title == "standup"


async def test_an_import_after_a_deletion_brings_it_all_back(store):
    first = await bring(store, sample("openclaw"))
    for each in first.threads:
        await store.delete(each.thread)
    assert states(await bring(store, sample("openclaw"))) == states(first)


def _long_turn(steps: int) -> list[dict[str, Any]]:
    """A rollout with one turn of many steps."""
    said: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}
    ]
    for at in range(steps):
        name = f"call_{at}"
        call = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": name}
        said += [call, {"type": "function_call_output", "call_id": name, "output": f"{at}"}]
    stamp = "2026-03-01T09:00:00Z"
    return [{"timestamp": stamp, "type": "response_item", "payload": item} for item in said]


async def test_a_turn_of_any_length_stays_one_turn(tmp_path):
    lines = _long_turn(3_000)
    logs = []
    for cuts in ((len(lines),), (10, 4_001, 4_002, len(lines))):
        store, file = MemoryStore(), tmp_path / "a.jsonl"
        for cut in cuts:
            report = await bring(store, write(file, *lines[:cut]))
        logs.append(essence(await store.read(report.threads[0].thread)))
        assert (await store.info(report.threads[0].thread)).turns == 1
    assert logs[0] == logs[1]
    assert [entry[2:4] for entry in logs[0][-2:]] == [(1, 3_000), (1, 3_000)]


def test_what_is_heavy_is_read_a_little_at_a_time():
    light, heavy = iter(range(10)), iter(range(10))
    assert take_chunk(light, lambda _: 1, 4) == [0, 1, 2, 3]
    assert take_chunk(heavy, lambda _: CHUNK_BYTES // 2, 4) == [0, 1]
    assert [take_chunk(light, lambda _: 1, 4) for _ in range(3)] == [[4, 5, 6, 7], [8, 9], []]


CHILD = """
import asyncio, sys
from pathlib import Path
from treadle.store.sqlite import SqliteStore
from treadle.transfer.importing import import_paths

async def main():
    async with await SqliteStore.open(Path(sys.argv[1])) as store:
        tell = lambda text: print(text, flush=True)
        await import_paths(store, [Path(sys.argv[2])], progress=tell)

asyncio.run(main())
"""


def _killed(home: Path, file: Path, after: int) -> None:
    """Import in a child, and kill it once it has told of so many steps."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(home), str(file)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    with child.stdout as told_of:
        list(itertools.islice(told_of, after))
        os.kill(child.pid, signal.SIGKILL)
    child.wait()


def test_an_import_that_is_killed_is_finished_by_the_next(tmp_path):
    file = write(
        tmp_path / "long.jsonl",
        *(
            {"thread": f"t{at % 3}", "id": f"m{at}", "role": role, "content": f"words {at}"}
            for at in range(12_000)
            for role in [("user", "assistant")[at // 3 % 2]]
        ),
    )
    for after in (1, 2, 1, 3):
        _killed(tmp_path / "killed", file, after)
    asyncio.run(_compare(tmp_path, file))


async def _compare(place: Path, file: Path) -> None:
    logs = []
    for name in ("killed", "whole"):
        async with await SqliteStore.open(place / name) as store:
            report = await bring(store, file)
            assert report.added + report.present == 12_000
            found = sorted(await store.threads(), key=lambda info: info.title)
            logs.append([essence(await store.read(info.id)) for info in found])
    assert logs[0] == logs[1]
