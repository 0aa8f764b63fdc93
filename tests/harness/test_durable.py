"""Which writes of a turn wait for the disk, and what waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.core.entries import CompletionMark
from treadle.core.errors import StoreFull
from treadle.harness.events import StepStarted, TextDelta
from treadle.store.contract import Change, ChangeResult, Lease
from treadle.store.sqlite import SqliteStore
from treadle.testing.script import Answer
from treadle.tools.decorator import tool

from .scenes import call, hear, last, of, open_thread, scripted


class Watched(SqliteStore):
    """A store that remembers what was written, and how; it can hold back the notes of requests."""

    written: list[str]
    noting: asyncio.Event
    notes: asyncio.Event | StoreFull

    async def commit(self, lease: Lease, change: Change) -> ChangeResult:
        words = [word for draft in change.entries for word in _words(draft.kind, draft.body)]
        words += ["admitted"] * (change.admit is not None)
        words += ["staged"] * sum(row.topic == "output" for row in change.outbox)
        noted = {"request", "completion"} & {*words}
        if noted and isinstance(self.notes, StoreFull):
            raise self.notes
        if noted and isinstance(self.notes, asyncio.Event):
            self.noting.set()
            await self.notes.wait()
        committed = await super().commit(lease, change)
        if words:
            self.written.append(f"{' '.join(words)}{' (light)' if change.light else ''}")
        return committed


def _words(kind: str, body: bytes) -> Iterator[str]:
    for word in (b"function_call_output", b"function_call", b'"output_text"', b'"text":"go"'):
        if word in body:
            names = {b'"output_text"': "words", b'"text":"go"': "input"}
            yield names.get(word, word.decode().removeprefix("function_"))
            return
    if kind in {"request", "response", "completion"}:
        yield kind


async def watched(place: Path) -> Watched:
    (place / "home").mkdir()
    store = await Watched.open(place / "home")
    assert isinstance(store, Watched)
    store.written, store.noting, store.notes = [], asyncio.Event(), asyncio.Event()
    store.notes.set()
    return store


@tool(parallel=True)
async def quick() -> str:
    """At once."""
    return "done"


@tool(parallel=True)
async def slow() -> str:
    """After a moment."""
    await asyncio.sleep(0.05)
    return "done"


async def test_the_last_result_of_a_step_is_on_the_disk_with_the_next_answer(tmp_path: Path):
    store = await watched(tmp_path)
    model = scripted(
        Answer(calls=(call("slow"), call("quick"))),
        Answer(calls=(call("quick"),)),
        Answer(text="Done."),
    )
    async with store, open_thread(tmp_path, model, tools=(quick, slow), store=store) as thread:
        assert last(await hear(thread, "go")).status == "completed"
    assert store.written == [
        "input admitted",
        "request (light)",
        "call call response",
        "staged",
        "call_output call_output (light)",
        "request (light)",
        "call response",
        "call_output (light)",
        "request (light)",
        "words response",
    ]


async def test_an_engine_is_asked_about_an_input_that_is_on_the_disk(tmp_path: Path):
    store = await watched(tmp_path)
    model = scripted(Answer(text="Done."))
    async with store, open_thread(tmp_path, model, engine="lossless", store=store) as thread:
        assert last(await hear(thread, "go")).status == "completed"
    assert store.written == ["admitted", "input (light)", "request (light)", "words response"]


async def test_no_byte_of_a_request_leaves_before_it_is_noted(tmp_path: Path):
    store = await watched(tmp_path)
    assert isinstance(store.notes, asyncio.Event)
    store.notes.clear()
    model = scripted(Answer(text="Done."))
    async with store, open_thread(tmp_path, model, store=store) as thread:
        turn = asyncio.create_task(hear(thread, "go"))
        await store.noting.wait()
        await asyncio.sleep(0.1)
        asked = list(model.requests)
        store.notes.set()
        events = await turn
    assert (asked, len(model.requests)) == ([], 1)
    kinds = [type(event) for event in of(events, StepStarted, TextDelta)]
    assert kinds[0] is StepStarted
    assert len(kinds) > 1


async def test_a_request_that_cannot_be_noted_is_not_sent(tmp_path: Path):
    store = await watched(tmp_path)
    store.notes = StoreFull("the disk is full")
    model = scripted(Answer(calls=(call("quick"),)))
    async with store, open_thread(tmp_path, model, tools=(quick,), store=store) as thread:
        with pytest.raises(StoreFull):
            await hear(thread, "go")
    assert model.requests == []


async def test_a_turn_that_is_interrupted_while_its_request_is_noted_ends_well(tmp_path: Path):
    store = await watched(tmp_path)
    assert isinstance(store.notes, asyncio.Event)
    store.notes.clear()
    model = scripted(Answer(text="Never heard.", delay=1.0), Answer(text="Again."))
    async with store, open_thread(tmp_path, model, store=store) as thread:
        turn = asyncio.create_task(hear(thread, "go"))
        await store.noting.wait()
        thread.interrupt()
        await asyncio.sleep(0.05)
        assert not turn.done()
        store.notes.set()
        assert last(await turn).status == "interrupted"
        assert last(await hear(thread, "again")).status == "completed"


async def test_a_request_for_a_summary_is_noted_before_its_first_byte_leaves(tmp_path: Path):
    store = await watched(tmp_path)
    model = scripted(Answer(text="long " * 2_000), Answer(text="Short."), Answer(text="Shorter."))
    async with store, open_thread(tmp_path, model, store=store) as thread:
        await hear(thread, "go")
        store.notes = StoreFull("the disk is full")
        with pytest.raises(StoreFull):
            await thread.compact()
        assert len(model.requests) == 1
        store.notes = asyncio.Event()
        store.noting.clear()
        compacting = asyncio.create_task(thread.compact())
        await store.noting.wait()
        await asyncio.sleep(0.1)
        assert len(model.requests) == 1
        store.notes.set()
        await compacting
        notes = [entry for entry in await store.read(thread.id) if entry.kind == "completion"]
    assert len(model.requests) == 1 + len(notes)
    (mark,) = (note.control for note in notes)
    assert isinstance(mark, CompletionMark)
    assert (mark.purpose, mark.size) == ("compaction", len(model.requests[1].body))
    assert "completion (light)" in store.written
