from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from treadle.core.errors import StoreClosed, StoreCorrupt, StoreTooNew
from treadle.engines.lossless.doctor.inspect_library import KnownTurns, read_library
from treadle.engines.lossless.library import LEASE_MS, Library, Note, SummaryJob
from treadle.engines.lossless.nodes import SummaryNode, join_spans

NODE = SummaryNode(
    id="sum_1", key="k1", thread="t", first=1, last=4, text="short", body=b"{}", tokens=9
)
JOB = SummaryJob(key="k1", thread="t", first=1, last=4)


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def clock() -> Clock:
    return Clock()


@pytest.fixture
async def library(tmp_path: Path, clock: Clock):
    made = Library(tmp_path / "engines" / "lossless.db", clock=clock)
    yield made
    await made.close()


def weak(node: SummaryNode) -> SummaryNode:
    return msgspec.structs.replace(node, id=f"{node.id}x", degraded=True)


async def test_a_node_is_found_by_name_and_by_what_it_summarises(library: Library):
    await library.add_node(NODE)
    assert await library.nodes(["sum_1", "sum_none"]) == {"sum_1": NODE}
    assert await library.best_nodes(["k1", "none"]) == {"k1": NODE}
    assert await library.nodes_of_thread("t") == [NODE]


async def test_a_node_never_changes_once_it_is_kept(library: Library):
    await library.add_node(NODE)
    other = msgspec.structs.replace(NODE, text="other words", body=b"[]")
    assert await library.add_node(other) == NODE
    assert await library.nodes(["sum_1"]) == {"sum_1": NODE}


@pytest.mark.parametrize("weak_first", [True, False])
async def test_a_summary_is_better_than_an_extract_whichever_came_first(
    library: Library, weak_first: bool
):
    for node in (weak(NODE), NODE) if weak_first else (NODE, weak(NODE)):
        await library.add_node(node)
    assert await library.best_nodes(["k1"]) == {"k1": NODE}


async def test_a_job_belongs_to_one_worker_at_a_time(library: Library):
    await library.add_jobs([JOB, JOB])
    taken = await library.lease_job("t", "k1", "one")
    assert taken == msgspec.structs.replace(JOB, attempts=1)
    assert await library.lease_job("t", "k1", "two") is None
    assert await library.lease_job("t", "none", "two") is None


async def test_a_job_of_a_worker_that_died_is_free_when_its_lease_is_over(
    library: Library, clock: Clock
):
    await library.add_jobs([JOB])
    await library.lease_job("t", "k1", "one")
    clock.now += LEASE_MS / 1000
    assert await library.lease_job("t", "k1", "two") == msgspec.structs.replace(JOB, attempts=2)


@pytest.mark.parametrize("ahead", [3_600.0, 50 * 365 * 86_400.0])
async def test_a_job_that_was_leased_under_a_clock_that_was_ahead_is_free(
    library: Library, clock: Clock, ahead: float
):
    await library.add_jobs([JOB])
    clock.now += ahead
    assert await library.lease_job("t", "k1", "one") is not None
    clock.now -= ahead
    assert await library.lease_job("t", "k1", "two") == msgspec.structs.replace(JOB, attempts=2)


async def test_a_job_that_was_put_back_under_a_clock_that_was_ahead_does_not_wait_for_it(
    library: Library, clock: Clock
):
    await library.add_jobs([JOB])
    clock.now += 86_400.0
    taken = await library.lease_job("t", "k1", "one")
    assert taken is not None
    await library.return_job(taken, "no model wrote it", 300.0)
    clock.now -= 86_400.0
    assert await library.lease_job("t", "k1", "two") is not None


async def test_a_job_that_was_put_back_waits_and_is_not_lost(library: Library, clock: Clock):
    await library.add_jobs([JOB])
    taken = await library.lease_job("t", "k1", "one")
    assert taken is not None
    await library.return_job(taken, "no model wrote it", 300.0)
    assert await library.lease_job("t", "k1", "two") is None
    clock.now += 300.0
    again = await library.lease_job("t", "k1", "two")
    assert again == msgspec.structs.replace(JOB, attempts=2, error="no model wrote it")


async def test_a_summary_ends_its_job_and_an_extract_does_not(library: Library):
    await library.add_jobs([JOB])
    await library.add_node(weak(NODE))
    assert await library.jobs() == [JOB]
    await library.add_node(NODE)
    assert await library.jobs() == []


async def test_work_that_nobody_needs_is_forgotten_thread_by_thread(library: Library):
    later = msgspec.structs.replace(JOB, key="k2", first=5, last=9)
    elsewhere = msgspec.structs.replace(JOB, thread="u")
    await library.add_jobs([JOB, later, elsewhere])
    await library.drop_jobs("t", 5)
    assert await library.jobs("t") == [JOB]
    await library.add_jobs([later])
    await library.keep_only_jobs("t", ["k2"])
    assert await library.jobs() == [elsewhere, later]


async def test_a_turn_is_noted_once(library: Library, tmp_path: Path):
    assert await library.commit_turn("t/1", "t", 1, 1, 4)
    assert not await library.commit_turn("t/1", "t", 1, 1, 4)
    assert await library.commit_turn("t/2", "t", 2, 5, 9)
    assert await library.last_committed_entry("t") == 9
    assert await library.last_committed_entry("u") == 0
    await library.add_node(weak(NODE))
    contents = read_library(tmp_path / "engines" / "lossless.db")
    assert contents.turns == {"t": KnownTurns(turns=2, last=9)}
    assert [node.degraded for node in contents.nodes.values()] == [True]
    assert contents.jobs == ()


async def test_notes_are_replaced_by_name_and_removed_when_empty(library: Library, clock: Clock):
    await library.write_note("t", "plan", "first")
    await library.write_note("t", "other", "stays")
    clock.now += 1
    await library.write_note("t", "plan", "second")
    time = int(clock.now * 1000)
    assert await library.notes("t") == [
        Note(name="plan", text="second", time=time),
        Note(name="other", text="stays", time=time - 1000),
    ]
    await library.write_note("t", "plan", " ")
    assert [note.name for note in await library.notes("t")] == ["other"]
    assert await library.notes("u") == []


async def test_what_was_told_with_a_prefix_is_told_again(library: Library):
    assert await library.pin_guidance("t", "p", "one") == "one"
    assert await library.pin_guidance("t", "p", "two") == "one"
    assert await library.pin_guidance("t", "q", "two") == "two"


async def test_everything_is_there_when_it_is_opened_again(tmp_path: Path):
    first = Library(tmp_path / "lossless.db")
    await first.add_node(NODE)
    await first.add_jobs([msgspec.structs.replace(JOB, key="k2")])
    await first.close()
    again = Library(tmp_path / "lossless.db")
    assert await again.nodes_of_thread("t") == [NODE]
    assert [job.key for job in await again.jobs()] == ["k2"]
    await again.close()


async def test_without_a_place_it_lives_in_memory():
    library = Library(None)
    await library.add_node(NODE)
    assert await library.nodes(["sum_1"]) == {"sum_1": NODE}
    await library.close()


async def test_two_writers_wait_for_each_other(tmp_path: Path):
    libraries = [Library(tmp_path / "lossless.db") for _ in range(4)]

    async def fill(at: int) -> None:
        for number in range(25):
            name = f"sum_{at}{number:03}"
            await libraries[at].add_node(msgspec.structs.replace(NODE, id=name, key=name))

    await asyncio.gather(*map(fill, range(4)))
    assert len(await libraries[0].nodes_of_thread("t")) == 100
    for library in libraries:
        await library.close()


async def test_all_libraries_of_a_file_share_one_thread_until_the_last_is_closed(tmp_path: Path):
    def threads() -> int:
        return len([one for one in threading.enumerate() if "treadle-lossless" in one.name])

    before, path = threads(), tmp_path / "lossless.db"
    libraries = [Library(path) for _ in range(20)]
    assert threads() == before
    await asyncio.gather(*(library.jobs() for library in libraries))
    assert threads() == before + 1
    await libraries[0].add_node(NODE)
    for library in libraries[:-1]:
        await library.close()
    assert await libraries[-1].nodes(["sum_1"]) == {"sum_1": NODE}
    await libraries[-1].close()
    assert threads() == before


async def test_only_one_of_many_workers_gets_a_job(tmp_path: Path):
    libraries = [Library(tmp_path / "lossless.db") for _ in range(4)]
    await libraries[0].add_jobs([JOB])
    taken = await asyncio.gather(
        *(library.lease_job("t", "k1", f"worker {at}") for at, library in enumerate(libraries))
    )
    assert len([job for job in taken if job is not None]) == 1
    for library in libraries:
        await library.close()


async def test_a_closed_library_says_so(tmp_path: Path):
    library = Library(tmp_path / "lossless.db")
    await library.close()
    await library.close()
    with pytest.raises(StoreClosed, match="open it again"):
        await library.jobs()


@pytest.mark.parametrize(
    ("pragmas", "error"),
    [("user_version = 99", StoreTooNew), ("user_version = 1", StoreCorrupt)],
)
async def test_a_file_that_is_not_ours_is_left_alone(tmp_path: Path, pragmas: str, error: type):
    path = tmp_path / "lossless.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (x)")
        other.execute(f"PRAGMA {pragmas}")
        other.commit()
    library = Library(path)
    with pytest.raises(error, match=r"lossless\.db"):
        await library.jobs()
    await library.close()


def test_spans_that_touch_are_one():
    assert join_spans([(1, 1), (2, 4), (6, 7), (8, 8)]) == ((1, 4), (6, 8))
