from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from treadle.core.entries import Draft, Epoch, Reason, Recipe, RecipePart, Rollback, control_draft
from treadle.core.entries import Node as RecipeNode
from treadle.core.entries import Range as Entries
from treadle.core.errors import StoreTooNew
from treadle.core.items import encode_item
from treadle.engines.conversation import conversation_of_rows, visible_rows
from treadle.engines.lossless.doctor.check_library import CheckResult, check_library
from treadle.engines.lossless.doctor.inspect_library import (
    KnownTurns,
    LibraryContents,
    read_library,
)
from treadle.engines.lossless.doctor.library_rules import DoctorFinding
from treadle.engines.lossless.doctor.repair_library import repair_library
from treadle.engines.lossless.library import LEASE_MS, Library, SummaryJob
from treadle.engines.lossless.nodes import SummaryNode, node_from_log
from treadle.engines.values import ContextItem, EntryRange
from treadle.prompt.engine_fragments import history_message
from treadle.prompt.registry import builtin_vocabulary
from treadle.store import Change, SqliteStore
from treadle.store.contract import OutboxDraft

from .samples import says, user
from .scenes import Speaker, keeping, summaries, talk, words


@dataclass
class Home:
    """A log and a library, both as a test wants them."""

    store: SqliteStore
    library: Library
    place: Path
    now: float = 1_000.0

    async def thread(self, messages: int = 8) -> str:
        """A thread that says something `messages` times."""
        thread = (await self.store.create()).id
        said = (encode_item((user, says)[n % 2](f"message {n}")) for n in range(messages))
        await self.write(thread, *(Draft(body=body, turn=1, step=1) for body in said))
        return thread

    async def write(self, thread: str, *drafts: Draft) -> None:
        lease = await self.store.acquire(thread)
        await self.store.commit(lease, Change(entries=drafts))
        await lease.release()

    async def shows(self, thread: str, *parts: RecipePart, by: str = "lossless") -> None:
        """Publish a recipe."""
        epoch = Epoch(reason=Reason.PUBLISH, recipe=Recipe(parts), by=by)
        await self.write(thread, control_draft(epoch))

    async def summary(self, thread: str, first: int, last: int, **facts: Any) -> RecipeNode:
        """A summary that the library knows, and its place in a recipe."""
        node = made(thread, first, last, **facts)
        await self.library.add_node(node)
        digest = await self.store.put_blob(thread, node.body)
        return RecipeNode(node.id, digest, first, last, node.tokens)

    async def found(self) -> CheckResult:
        return await check_library(
            self.store,
            self.place / "log.db",
            self.place / "lossless.db",
            clock=lambda: self.now,
        )

    async def kinds(self) -> list[str]:
        return [finding.kind for finding in (await self.found()).findings]

    async def mended(self) -> list[str]:
        result = await self.found()
        return await repair_library(
            self.store, self.place / "lossless.db", result, clock=lambda: self.now
        )

    def contents(self) -> LibraryContents:
        return read_library(self.place / "lossless.db")


def made(thread: str, first: int, last: int, **facts: Any) -> SummaryNode:
    name = facts.pop("name", f"sum_{first:08}{last:08}")
    degraded, depth = facts.get("degraded", False), facts.get("depth", 0)
    message = history_message(
        id=name,
        depth=depth,
        first=first,
        last=last,
        turns="1",
        text="they spoke",
        degraded=degraded,
        vocabulary=builtin_vocabulary(),
    )
    return SummaryNode(
        id=name,
        key=facts.pop("key", f"key {name}"),
        thread=thread,
        first=first,
        last=last,
        spans=((first, last),),
        text="they spoke",
        body=encode_item(message),
        tokens=7,
        **facts,
    )


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    library = Library(tmp_path / "lossless.db", clock=lambda: 0.0)
    async with await SqliteStore.open(tmp_path) as store:
        yield Home(store, library, tmp_path)
    await library.close()


async def test_what_the_engine_does_is_sound(tmp_path):
    model = Speaker()
    async with keeping(tmp_path, model) as (thread, _):
        for number in range(14):
            await talk(thread, f"look at {words(number, 200)}")
        assert summaries(thread)
        await thread.rollback(2)
        await talk(thread, "look again")
        cut = thread.view.upto
        store, name = thread.store, thread.id
        await store.fork(name, cut // 2)
        await store.fork(name, cut)
        found = await check_library(store, tmp_path / "home/log.db", tmp_path / "lossless.db")
    assert found.findings == ()


async def test_extracts_are_sound_too(tmp_path):
    async with keeping(tmp_path, Speaker(mood="failing")) as (thread, _):
        for number in range(14):
            await talk(thread, f"look at {words(number, 200)}")
        assert summaries(thread)
        found = await check_library(
            thread.store, tmp_path / "home/log.db", tmp_path / "lossless.db"
        )
    assert found.findings == ()


async def test_a_home_without_a_library_is_sound(home):
    await home.thread()
    assert await home.kinds() == []
    assert home.contents() == LibraryContents()


async def test_a_summary_that_the_library_lost_is_taken_over(home):
    thread = await home.thread()
    node = made(thread, 1, 4)
    digest = await home.store.put_blob(thread, node.body)
    await home.shows(thread, RecipeNode(node.id, digest, 1, 4, 7), Entries(5, 8))
    found = await home.found()
    assert found.findings == (
        DoctorFinding(
            kind="lost_node",
            thread=thread,
            subject=node.id,
            what=f"summary {node.id} is shown, but not in the library",
            remedy="`treadle lossless doctor --fix` takes it over from the log, "
            "as the thread's next turn does",
            fixable=True,
        ),
    )
    assert await home.mended() == ["took over 1 summaries from the log"]
    shown = ContextItem(body=node.body, tokens=7, covers=EntryRange(1, 4), name=node.id)
    past = conversation_of_rows(thread, await visible_rows(home.store, thread, 1, 4)).items
    assert home.contents().nodes == {node.id: node_from_log(thread, shown, past)}
    assert await home.kinds() == []


async def test_older_recipes_count_and_those_that_were_rolled_back_do_not(home):
    thread = await home.thread()
    first, second = made(thread, 1, 2), made(thread, 1, 4)
    blobs = [await home.store.put_blob(thread, node.body) for node in (first, second)]
    await home.shows(thread, RecipeNode(first.id, blobs[0], 1, 2), Entries(3, 8))
    await home.shows(thread, RecipeNode(second.id, blobs[1], 1, 4), Entries(5, 8))
    assert [found.subject for found in (await home.found()).findings] == [first.id, second.id]
    await home.write(thread, control_draft(Rollback(10)))
    assert [found.subject for found in (await home.found()).findings] == [first.id]


async def test_the_text_of_a_summary_must_be_in_the_log(home):
    thread = await home.thread()
    await home.summary(thread, 1, 4)
    lost = f"sha256:{'0' * 64}"
    await home.shows(thread, RecipeNode("sum_0000000100000004", lost, 1, 4), Entries(5, 8))
    (finding,) = (await home.found()).findings
    assert (finding.kind, finding.fixable, finding.serious) == ("lost_blob", False, True)
    assert finding.remedy == f"go on from before it: treadle fork {thread} --at 8"


async def test_a_summary_stands_for_what_was_there_before_it(home):
    thread = await home.thread()
    part = await home.summary(thread, 1, 9)
    await home.shows(thread, part)
    assert await home.kinds() == ["outside_log"]


async def test_a_summary_of_nothing_is_dropped_unless_it_is_shown(home):
    thread = await home.thread()
    part = await home.summary(thread, 1, 4)
    await home.shows(thread, part, Entries(5, 8))
    stray = await home.summary(thread, 500, 501)
    assert await home.kinds() == ["outside_log"]
    assert await home.mended() == ["dropped 1 summaries of entries that are not there"]
    assert (set(home.contents().nodes), stray.id in home.contents().nodes) == ({part.id}, False)


@pytest.mark.parametrize(
    ("ranges", "kinds"),
    [
        ([(1, 4), (5, 8)], []),
        ([(1, 4), (4, 8)], ["overlap"]),
        ([(5, 8), (1, 4)], ["overlap"]),
        ([(1, 4), (7, 8)], ["gap"]),
        ([(1, 4)], ["gap"]),
    ],
)
async def test_a_view_stands_for_every_entry_once_and_in_order(home, ranges, kinds):
    thread = await home.thread()
    (first, last), *rest = ranges
    part = await home.summary(thread, first, last)
    await home.shows(thread, part, *(Entries(*each) for each in rest))
    assert await home.kinds() == kinds


async def test_a_gap_names_the_first_entries_that_are_missing(home):
    thread = await home.thread()
    await home.shows(thread, await home.summary(thread, 1, 2))
    (finding,) = (await home.found()).findings
    assert finding.what == "the view stands for neither of entries 3, 4, 5 and 3 more"


async def test_what_another_engine_left_out_is_no_gap(home):
    thread = await home.thread()
    await home.shows(thread, Entries(7, 8), by="")
    await home.shows(thread, await home.summary(thread, 7, 8))
    assert await home.kinds() == []


async def test_recipes_of_others_are_not_looked_at(home):
    thread = await home.thread()
    await home.shows(thread, RecipeNode("sum_theirs", f"sha256:{'0' * 64}", 1, 4), by="retrieval")
    assert await home.kinds() == []


async def test_children_exist_and_are_no_extracts(home):
    thread = await home.thread()
    weak = await home.summary(thread, 1, 2, degraded=True)
    await home.summary(thread, 1, 4, depth=1, children=(weak.id, "sum_gone"))
    found = (await home.found()).findings
    assert [(one.kind, one.serious, one.fixable) for one in found] == [
        ("lost_child", False, False),
        ("condensed_extract", True, False),
    ]


async def test_extracts_may_be_merged(home):
    thread = await home.thread()
    weak = await home.summary(thread, 1, 2, degraded=True)
    await home.summary(thread, 1, 4, degraded=True, children=(weak.id,))
    assert await home.kinds() == []


async def test_a_log_that_is_older_than_the_library_is_told(home):
    thread = await home.thread()
    await home.library.commit_turn("turn", thread, 1, 1, 80)
    assert home.contents().turns == {thread: KnownTurns(1, 80)}
    (finding,) = (await home.found()).findings
    assert finding.what == "the engine knows turns up to entry 80, the log ends at 8"


async def test_turns_that_did_not_reach_the_engine_are_told(home):
    thread = await home.thread()
    lease = await home.store.acquire(thread)
    rows = [
        OutboxDraft(topic="engine:lossless", key=state, body=Raw(b"{}"), state=state)
        for state in ("admitted", "accepted", "ready")
    ]
    await home.store.commit(lease, Change(outbox=tuple(rows)))
    (_, _, ready) = await home.store.outbox(thread=thread)
    await home.store.retry(ready.number, "the disk was full")
    (finding,) = (await home.found()).findings
    assert (finding.kind, finding.serious) == ("behind_log", False)
    assert finding.what == "2 turns have not reached the engine, last: the disk was full"
    await home.store.commit(lease, Change(outbox=(_blocked(rows[2]),)))
    await lease.release()
    (finding,) = (await home.found()).findings
    assert finding.serious


def _blocked(row: OutboxDraft) -> OutboxDraft:
    return msgspec.structs.replace(row, state="blocked")


async def test_jobs_about_what_is_gone_are_dropped(home):
    thread = await home.thread()
    await home.write(thread, control_draft(Rollback(5)))
    ranges = {"kept": (1, 4), "hidden": (1, 6), "beyond": (1, 90)}
    jobs = [SummaryJob(key=key, thread=thread, first=a, last=b) for key, (a, b) in ranges.items()]
    await home.library.add_jobs(
        [*jobs, SummaryJob(key="deleted", thread="thr_gone", first=1, last=4)]
    )
    found = (await home.found()).findings
    assert {one.subject: one.what.partition("but ")[2] for one in found} == {
        "hidden": "they were rolled back",
        "beyond": "the log ends at 9",
        "deleted": "its thread was deleted",
    }
    assert await home.mended() == ["dropped 3 jobs that nobody needs"]
    assert [job.key for job in home.contents().jobs] == ["kept"]


async def test_a_job_that_spans_what_was_rolled_back_is_still_wanted(home):
    thread = await home.thread()
    await home.write(thread, control_draft(Rollback(5)), Draft(body=encode_item(user("again"))))
    await home.library.add_jobs([SummaryJob(key="around", thread=thread, first=1, last=10)])
    assert await home.kinds() == []


async def test_a_lease_that_ran_out_is_given_back(home):
    thread = await home.thread()
    await home.library.add_jobs([SummaryJob(key="key", thread=thread, first=1, last=4)])
    assert await home.library.lease_job(thread, "key", "worker") is not None
    home.now = LEASE_MS / 1000 - 1
    assert await home.kinds() == []
    home.now = LEASE_MS / 1000 + 1
    assert await home.kinds() == ["expired_lease"]
    assert await home.mended() == ["freed 1 jobs whose worker never ended"]
    (job,) = home.contents().jobs
    assert (job.leased, job.attempts) == (False, 1)


async def test_an_extract_in_view_that_nobody_would_write_anew_is_queued(home):
    thread = await home.thread()
    part = await home.summary(thread, 1, 4, degraded=True)
    await home.shows(thread, part, Entries(5, 8))
    assert await home.kinds() == ["degraded_node"]
    assert await home.mended() == ["queued 1 extracts to be written by a model"]
    (job,) = home.contents().jobs
    assert (job.thread, job.key, job.first, job.last) == (thread, f"key {part.id}", 1, 4)
    assert await home.kinds() == []


async def test_an_extract_that_was_written_anew_is_not_queued(home):
    thread = await home.thread()
    part = await home.summary(thread, 1, 4, degraded=True, key="same")
    await home.summary(thread, 1, 4, key="same", name="sum_better")
    await home.shows(thread, part, Entries(5, 8))
    assert await home.kinds() == []


async def test_what_is_left_of_deleted_threads_is_forgotten(home):
    gone, stays = await home.thread(), await home.thread()
    for thread in (gone, stays):
        await home.summary(thread, 1, 4, name=f"sum_of_{thread}")
        await home.library.write_note(thread, "plan", "go on")
        await home.library.commit_turn(f"turn of {thread}", thread, 1, 1, 8)
        await home.library.pin_guidance(thread, "prefix", "how to recall")
    await home.store.delete(gone)
    (finding,) = (await home.found()).findings
    assert (finding.kind, finding.subject, finding.what) == (
        "left_behind",
        gone,
        "1 summaries and 1 notes are left of a thread that was deleted",
    )
    assert await home.mended() == ["forgot what was left of 1 deleted threads"]
    assert home.contents().threads == {stays}
    assert await home.kinds() == []


async def test_what_a_fork_shares_is_not_left_behind(home):
    thread = await home.thread()
    part = await home.summary(thread, 1, 4)
    await home.shows(thread, part, Entries(5, 8))
    await home.store.fork(thread, 9)
    await home.store.delete(thread)
    assert await home.kinds() == []


async def test_a_summary_that_others_show_outlives_its_thread(home):
    gone, stays = await home.thread(), await home.thread()
    shown = await home.summary(gone, 1, 4, children=("sum_below",))
    below = await home.summary(gone, 1, 2, name="sum_below")
    other = await home.summary(gone, 5, 6)
    digest = await home.store.put_blob(stays, made(gone, 1, 4, children=("sum_below",)).body)
    await home.shows(stays, RecipeNode(shown.id, digest, 1, 4), Entries(5, 8))
    await home.store.delete(gone)
    await home.mended()
    assert set(home.contents().nodes) == {shown.id, below.id}
    assert other.id not in home.contents().nodes


async def test_a_library_of_a_newer_treadle_is_not_touched(home):
    thread = await home.thread()
    await home.summary(thread, 1, 4)
    await home.library.close()
    with closing(sqlite3.connect(home.place / "lossless.db")) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreTooNew):
        home.contents()
    with pytest.raises(StoreTooNew):
        await home.found()
