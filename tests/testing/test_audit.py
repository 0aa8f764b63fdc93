from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.scenes import hear
from treadle import Routing, Thread
from treadle.harness.events import Event, NoticeRaised, ToolFinished, TurnStarted
from treadle.store.sqlite import SqliteStore
from treadle.testing import ScriptedModel
from treadle.testing.audit import AckRecorder, Evidence, Report, audit, read_acks
from treadle.testing.audit.evidence import _UNWRITTEN
from treadle.testing.script import Answer, Call
from treadle.tools.decorator import tool

SECRET = "sk-planted-in-a-test-000000000000"
TURNS = ("Do it once.", "And again.", "Well?")


@tool
async def act(name: str) -> str:
    """Does something."""
    return f"done {name}"


def acting(call: str) -> Answer:
    return Answer(
        text=f"I will, {call}.", calls=(Call(name="act", id=call, arguments={"name": call}),)
    )


async def lived(home: Path) -> Evidence:
    """A thread with the lossless engine, and what its host heard."""
    lines: list[bytes] = []
    witness = AckRecorder(lines.append)
    model = ScriptedModel(
        [
            acting("call1"),
            Answer(text="word1"),
            acting("call2"),
            Answer(text="word2"),
            Answer(text="word3"),
        ]
    )
    async with Thread.open(
        model=model,
        home=home,
        cwd=home,
        engine="lossless",
        tools=(act,),
        routing=Routing(environ={}),
    ) as thread:

        def heard(event: Event) -> None:
            witness.record_event(thread.id, event)

        for number, words in enumerate(TURNS):
            witness.record_input(thread.id, f"turn{number}", words)
            await hear(thread, words, turn_id=f"turn{number}", at=heard)
        await thread.wait_for_engine(5)
    await model.close()
    return Evidence(
        homes=(home,),
        acks=tuple(read_acks(lines)),
        words=r"word\d",
        effects=Counter(("call1", "call2")),
        engines={thread.id: "lossless"},
        secrets=(SECRET,),
    )


@pytest.fixture
async def evidence(tmp_path: Path) -> Evidence:
    home = tmp_path / "home"
    home.mkdir()
    return await lived(home)


def defects(report: Report) -> set[str]:
    return {row for row, count in report.counts.items() if count}


@contextmanager
def database(evidence: Evidence, name: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(evidence.homes[0] / name)) as connection, connection:
        yield connection


def change(evidence: Evidence, statement: str, name: str = "log.db") -> None:
    with database(evidence, name) as connection:
        assert connection.execute(statement).rowcount > 0


LIBRARY = "engines/lossless/lossless.db"


async def test_a_past_without_defects_is_clean_and_was_looked_at(evidence: Evidence):
    before = {path: path.read_bytes() for path in evidence.homes[0].glob("*.db")}
    report = await audit(evidence)
    assert report.findings == ()
    assert report.clean
    assert {path: path.read_bytes() for path in before} == before
    looked = {name: report.looked[name] for name in ("threads", "turns", "calls", "advances")}
    assert looked == {"threads": 1, "turns": 3, "calls": 2, "advances": 3}
    assert report.looked["requests"] == 5
    assert report.looked["acknowledged"] > 8


async def test_a_thread_whose_writer_died_before_the_first_entry_is_no_defect(evidence: Evidence):
    async with await SqliteStore.open(evidence.homes[0]) as store:
        empty = (await store.create(cwd="/")).id
    engines = {**evidence.engines, empty: "lossless"}
    report = await audit(replace(evidence, engines=engines))
    assert (report.findings, report.looked["threads"]) == ((), 2)


def reworded(evidence: Evidence, old: str, new: str) -> None:
    """Entries that say `old` say `new`."""
    with database(evidence, "log.db") as connection:
        text = "CAST(body AS TEXT)"
        done = connection.execute(
            f"UPDATE entries SET body = CAST(replace({text}, ?, ?) AS BLOB), checksum = NULL "
            f"WHERE {text} LIKE ?",
            (old, new, f"%{old}%"),
        )
        assert done.rowcount > 0


def copied(evidence: Evidence, like: str, *, item: str = "item", rename: str = "") -> None:
    """An entry stands at the end of the log once more, under another name if need be."""
    with database(evidence, "log.db") as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(entries)")][1:]
        body = f"CAST(replace(CAST(body AS TEXT), 'call2', '{rename or 'call2'}') AS BLOB)"
        new = {"item": item, "body": body, "checksum": "NULL"}
        given = ", ".join(new.get(name, name) for name in columns)
        done = connection.execute(
            f"INSERT INTO entries (id, {', '.join(columns)}) "
            f"SELECT (SELECT max(id) + 1 FROM entries), {given} "
            "FROM entries WHERE CAST(body AS TEXT) LIKE ?",
            (like,),
        )
        assert done.rowcount == 1
        connection.execute("UPDATE threads SET last = last + 1")


def forgets_the_end(evidence: Evidence) -> None:
    last = "SELECT max(id) FROM entries WHERE kind = 'item'"
    change(evidence, f"DELETE FROM entries WHERE id = ({last})")


def says_otherwise(evidence: Evidence) -> None:
    reworded(evidence, "word3", "word4")


def says_it_again(evidence: Evidence) -> None:
    copied(evidence, "%word3%")


def repeats_a_result(evidence: Evidence) -> None:
    copied(evidence, '%"function_call_output"%call2%', item="NULL")


def leaves_a_call_open(evidence: Evidence) -> None:
    copied(evidence, '%"function_call"%call2%', item="NULL", rename="call3")


def loses_an_end(evidence: Evidence) -> None:
    change(evidence, "UPDATE turns SET state = 'failed' WHERE turn = 'turn1'")


def notes_a_turn_twice(evidence: Evidence) -> None:
    again = "INSERT INTO turns SELECT 'another key', thread, number, first, last FROM turns LIMIT 1"
    change(evidence, again, LIBRARY)


def hands_entries_over_twice(evidence: Evidence) -> None:
    change(evidence, "UPDATE turns SET first = 1 WHERE number = 3", LIBRARY)


def never_notes_a_turn(evidence: Evidence) -> None:
    change(evidence, "DELETE FROM turns WHERE number = 2", LIBRARY)


def breaks_a_prefix(evidence: Evidence) -> None:
    change(evidence, "UPDATE requests SET unexplained = 1 WHERE number = 2", "index.db")


def rewrites_the_past(evidence: Evidence) -> None:
    reworded(evidence, "Do it", "Did it")


def tells_a_secret(evidence: Evidence) -> None:
    (evidence.homes[0] / "treadle.log").write_text(f"Authorization: Bearer {SECRET}")


def hides_a_secret(evidence: Evidence) -> None:
    """In a value that SQLite parts over two pages."""
    with database(evidence, "index.db") as connection:
        connection.execute("CREATE TABLE hidden (value TEXT)")
        filling = ("x" * (at + 4000) + SECRET + "y" * 5000 for at in range(60))
        connection.executemany("INSERT INTO hidden VALUES (?)", ((each,) for each in filling))


def damages_a_database(evidence: Evidence) -> None:
    path = evidence.homes[0] / LIBRARY
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xa5" * 4096 + data[8192:])


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (forgets_the_end, {"lost"}),
        (says_otherwise, {"lost"}),
        (says_it_again, {"doubled"}),
        (repeats_a_result, {"extra_results"}),
        (leaves_a_call_open, {"open_calls"}),
        (loses_an_end, {"turns_lost"}),
        (notes_a_turn_twice, {"advanced_twice"}),
        (hands_entries_over_twice, {"advanced_twice"}),
        (never_notes_a_turn, {"not_advanced"}),
        (breaks_a_prefix, {"breaks"}),
        (rewrites_the_past, {"lost", "differing"}),
        (tells_a_secret, {"secrets"}),
        (hides_a_secret, {"secrets"}),
    ],
)
async def test_each_defect_is_found(
    evidence: Evidence, plant: Callable[[Evidence], None], found: set[str]
):
    plant(evidence)
    report = await audit(evidence)
    assert defects(report) == found
    assert not report.clean


async def test_an_entry_that_is_not_as_it_was_written_is_found(evidence: Evidence):
    change(evidence, "UPDATE entries SET tokens = tokens + 1 WHERE kind = 'request'")
    report = await audit(evidence)
    assert "damaged" in defects(report)
    assert any("not as it was written: entry" in finding.what for finding in report.findings)


async def test_a_damaged_database_is_found(evidence: Evidence):
    damages_a_database(evidence)
    report = await audit(evidence)
    assert "damaged" in defects(report)


async def test_a_log_that_is_gone_is_a_loss_of_all_that_was_told(evidence: Evidence):
    shutil.rmtree(evidence.homes[0])
    evidence.homes[0].mkdir()
    assert defects(await audit(evidence)) == {"lost"}


async def test_what_was_done_twice_or_not_at_all_is_found(evidence: Evidence):
    twice = replace(evidence, effects=Counter(("call1", "call1", "call2")))
    assert defects(await audit(twice)) == {"done_twice"}
    never = replace(evidence, effects=Counter(("call2",)))
    assert defects(await audit(never)) == {"not_done"}


async def test_what_a_provider_sent_twice_may_stand_twice(evidence: Evidence):
    says_it_again(evidence)
    with database(evidence, "log.db") as connection:
        (name,) = connection.execute("SELECT item FROM entries ORDER BY id DESC").fetchone()
    known = replace(evidence, sent=Counter({"word3": 2, name: 2}))
    assert (await audit(known)).clean


async def test_a_secret_in_the_files_of_another_program_counts_apart(evidence: Evidence):
    other = evidence.homes[0] / "codex" / "home"
    other.mkdir(parents=True)
    (other / "rollout.jsonl").write_text(SECRET)
    report = await audit(replace(evidence, foreign=("/codex/home/",)))
    assert defects(report) == {"foreign_secrets"}
    assert report.clean


async def test_a_process_that_stayed_is_found_by_its_mark(evidence: Evidence):
    mark = f"mark-{os.getpid()}-of-this-test"
    marked = replace(evidence, mark=mark)
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(300)"]
    process = await asyncio.create_subprocess_exec(
        *command, env={"MARK": mark}, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    report = await audit(marked)
    process.kill()
    await process.wait()
    assert [finding.where for finding in report.findings] == [str(process.pid)]
    assert defects(report) == {"orphans"}
    assert (await audit(marked)).clean


def test_torn_lines_tell_nothing():
    whole = b'{"type":"begun","thread":"t","turn":"u","number":1}'
    assert len(list(read_acks([whole, whole[:20], b"", b"\xff", whole]))) == 2


def test_results_that_come_with_a_warning_are_not_acknowledged():
    lines: list[bytes] = []
    witness = AckRecorder(lines.append)
    started = TurnStarted(
        thread="t", turn="u", number=1, model="m", harness="codex", sandbox="none"
    )
    done = ToolFinished(call_id="c", name="act", success=True, seconds=0.1, output="done c")
    warning = f"what Codex does {_UNWRITTEN}: the disk is full"
    for event in (started, done, NoticeRaised(level="warning", text=warning), done, started, done):
        witness.record_event("t", event)
    told = [type(ack).__name__ for ack in read_acks(lines)]
    assert told == ["Begun", "Returned", "Begun", "Returned"]
