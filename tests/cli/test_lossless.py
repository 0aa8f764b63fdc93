from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.engines.lossless.recalling import talking
from tests.harness.scenes import hear
from treadle import Rights, Thread

from .scripts import scripted
from .terminal import Treadle

LIBRARY = "engines/lossless/lossless.db"
OWED = (
    "INSERT INTO jobs (key, thread, first, last, depth, created, attempts, error) "
    "VALUES (?, ?, 4, 5, 0, 0, ?, ?)"
)

WRITER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)
print("ready", flush=True)
number = 0
while True:
    number += 1
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO notes (thread, name, text, time) VALUES ('t', ?, 'a', 0)", (number,))
    db.execute("INSERT INTO told VALUES ('t', ?, 'a')", (str(number),))
    db.execute("COMMIT")
"""


async def past(treadle: Treadle, *said: str, title: str = "ducks") -> str:
    """A thread that the lossless engine has compacted; without a model that can summarise."""
    model = talking()
    try:
        async with Thread.open(
            model=model,
            home=treadle.home,
            cwd=treadle.project,
            tools=(),
            engine="lossless",
            rights=Rights(sandbox="danger-full-access", approval="never"),
            title=title,
        ) as thread:
            for text in said:
                await hear(thread, text)
            await thread.compact()
            return thread.id
    finally:
        await model.close()


@pytest.fixture
def compacted(treadle: Treadle) -> str:
    return asyncio.run(past(treadle, "one", "two", "three"))


def changed(treadle: Treadle, statement: str, *values: object) -> None:
    """Change the library behind the engine's back."""
    with closing(sqlite3.connect(treadle.home / LIBRARY)) as db, db:
        db.execute(statement, values)


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def names(treadle: Treadle) -> set[str]:
    return {str(name) for (name,) in rows(treadle.home / LIBRARY, "SELECT id FROM nodes")}


def test_status_holds_what_the_engine_knows_against_the_log(treadle, compacted):
    (thread,) = treadle("lossless", "status", "--json").json["threads"]
    assert (thread["thread"], thread["title"]) == (compacted, "ducks")
    assert (thread["turns_known"], thread["turns_in_log"], thread["turns_waiting"]) == (3, 3, 0)
    assert thread["last_known"] <= thread["last_in_log"]
    assert thread["summaries"] >= thread["shown"] > 0
    assert 0 < thread["view_tokens"] < thread["budget"]


def test_status_is_a_table_with_debts_and_files_below(treadle, compacted):
    changed(treadle, OWED, "key", compacted, 3, "no model wrote it")
    lines = treadle("lossless", "status").lines
    assert lines[0].split() == [
        *("THREAD", "TURNS", "SUMMARIES", "DEGRADED", "OWED", "VIEW", "BUDGET", "TITLE")
    ]
    assert lines[1].split()[:2] == [compacted, "3/3"]
    told = [line for line in lines if "are owed" in line]
    assert [line.endswith("tried up to 3 times, last: no model wrote it") for line in told] == [
        True
    ]
    assert [line.split()[0] for line in lines[-3:]] == [LIBRARY, "log.db", "index.db"]


def test_status_of_one_thread_shows_no_other(treadle, compacted):
    asyncio.run(past(treadle, "four", "five", "six", title="geese"))
    shown = treadle("lossless", "status", "--thread", "ducks", "--json").json["threads"]
    assert [thread["thread"] for thread in shown] == [compacted]


def test_status_where_the_engine_never_was(treadle):
    assert treadle("lossless", "status").text == "the lossless engine has served no thread here\n"
    assert not (treadle.home / "log.db").exists()


@pytest.mark.usefixtures("compacted")
def test_a_sound_home_has_no_findings(treadle):
    assert treadle("lossless", "doctor").text == "summaries, jobs and logs agree\n"
    assert treadle("lossless", "doctor", "--fix", "--json").json == {
        "ok": True,
        "findings": [],
        "done": [],
        "backup": None,
    }
    assert not (treadle.home / "backups").exists()


@pytest.mark.usefixtures("compacted")
def test_looking_changes_no_byte(treadle):
    before = (treadle.home / LIBRARY).read_bytes()
    treadle("lossless", "doctor")
    treadle("lossless", "status")
    assert (treadle.home / LIBRARY).read_bytes() == before


@pytest.mark.usefixtures("compacted")
def test_a_lost_library_is_filled_again_from_the_log(treadle):
    shown = names(treadle)
    shutil.rmtree(treadle.home / "engines/lossless")
    told = treadle.attempt("lossless", "doctor")
    assert told.code == 1
    assert "is shown, but not in the library; `treadle lossless doctor --fix`" in told.text
    done = treadle("lossless", "doctor", "--fix")
    assert done.lines[0].startswith("took over ")
    assert done.lines[-1] == "summaries, jobs and logs agree"
    assert names(treadle) <= shown
    assert names(treadle)
    name = min(names(treadle))
    assert "one" in treadle("recall", "expand", name).text


@pytest.mark.usefixtures("compacted")
def test_what_is_mended_is_copied_first(treadle):
    changed(treadle, OWED, "k", "thr_gone", 0, None)
    found = treadle("lossless", "doctor", "--json").json
    assert [finding["kind"] for finding in found["findings"]] == ["orphaned_job"]
    done = treadle("lossless", "doctor", "--fix", "--json").json
    assert (done["ok"], done["findings"]) == (True, [])
    assert done["done"] == ["dropped 1 jobs that nobody needs"]
    saved = Path(done["backup"])
    assert rows(saved / LIBRARY, "SELECT key FROM jobs WHERE thread = 'thr_gone'") == [("k",)]
    assert rows(treadle.home / LIBRARY, "SELECT key FROM jobs WHERE thread = 'thr_gone'") == []


@pytest.mark.usefixtures("compacted")
def test_a_damaged_library_is_told_apart_from_the_log(treadle):
    path = treadle.home / LIBRARY
    for beside in path.parent.glob("*-wal"):
        beside.unlink()
    path.write_bytes(b"no database at all, but long enough to be read as one" * 200)
    told = treadle.attempt("lossless", "doctor", "--json").json
    (finding,) = told["findings"]
    assert (told["ok"], finding["kind"], finding["subject"]) == (
        False,
        "damaged_file",
        "lossless.db",
    )
    assert finding["remedy"] == (
        "`treadle lossless doctor --fix` moves it aside: its summaries are made again from the log"
    )
    broken = path.read_bytes()
    mended = treadle("lossless", "doctor", "--fix", "--json").json
    assert mended["ok"]
    assert "the damaged library was moved to " in mended["done"][0]
    (aside,) = path.parent.glob("lossless.db.broken-*Z")
    assert aside.read_bytes() == broken
    assert treadle("lossless", "doctor").text == "summaries, jobs and logs agree\n"


def test_a_backup_is_a_home_of_its_own(treadle, compacted, tmp_path):
    done = treadle("lossless", "backup", str(tmp_path / "copy"), "--json").json
    assert done["backup"] == str(tmp_path / "copy")
    assert [file["path"] for file in done["files"]] == [LIBRARY, "log.db"]
    other = Treadle(tmp_path / "copy", treadle.project)
    assert other("lossless", "doctor").text == "summaries, jobs and logs agree\n"
    assert [info["id"] for info in other("threads", "--json").json] == [compacted]


@pytest.mark.usefixtures("compacted")
def test_a_backup_replaces_nothing(treadle, tmp_path):
    (tmp_path / "copy").mkdir()
    said = treadle.refused("lossless", "backup", str(tmp_path / "copy"))
    assert "already exists; name a new directory" in said
    assert list((tmp_path / "copy").iterdir()) == []


@pytest.mark.usefixtures("compacted")
def test_without_a_place_a_backup_goes_into_the_home(treadle):
    first, second = (Path(treadle("lossless", "backup", "--json").json["backup"]) for _ in range(2))
    assert first.parent == second.parent == treadle.home / "backups"
    assert (first / "log.db").exists()
    assert (second / LIBRARY).exists()


def test_there_is_nothing_to_copy_where_nothing_is(treadle, tmp_path):
    said = treadle.refused("lossless", "backup", str(tmp_path / "copy"))
    assert said == "treadle: there is nothing to copy: this home has no threads\n"


@pytest.mark.usefixtures("compacted")
def test_a_copy_is_one_moment_also_while_others_write(treadle, tmp_path):
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, treadle.home / LIBRARY], stdout=subprocess.PIPE
    )
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        for number in range(3):
            treadle("lossless", "backup", str(tmp_path / f"copy{number}"))
    finally:
        writer.kill()
        writer.communicate()
    for number in range(3):
        copy = tmp_path / f"copy{number}" / LIBRARY
        ((noted,),) = rows(copy, "SELECT count(*) FROM notes WHERE thread = 't'")
        ((told,),) = rows(copy, "SELECT count(*) FROM told WHERE thread = 't'")
        assert (noted, rows(copy, "PRAGMA integrity_check")) == (told, [("ok",)])


def test_deleting_a_thread_forgets_its_summaries_and_notes(treadle, compacted):
    changed(
        treadle, "INSERT INTO notes (thread, name, text, time) VALUES (?, 'a', 'b', 0)", compacted
    )
    treadle("delete", compacted, "--yes")
    for table in ("nodes", "jobs", "turns", "notes", "told"):
        assert rows(treadle.home / LIBRARY, f"SELECT * FROM {table}") == []
    assert treadle("lossless", "doctor").text == "summaries, jobs and logs agree\n"


def test_what_a_fork_shares_outlives_the_thread_it_is_from(treadle, compacted):
    treadle("fork", compacted)
    before = names(treadle)
    treadle("delete", compacted, "--yes")
    assert names(treadle) == before
    assert treadle("lossless", "doctor").text == "summaries, jobs and logs agree\n"


def test_turns_that_have_a_process_each_get_summaries_by_the_model(treadle: Treadle):
    (treadle.home / "models.toml").write_text("[fallback]\ncontext_window = 16000\n")
    summary = {"when": "Summarise the source now", "text": "Of src/pond.py.", "times": 0}
    model = scripted(treadle, summary, {"text": "It is so.", "times": 0})
    said = "Look at src/pond.py. " + "The ducks are on the pond, and nobody knows why. " * 40
    options = ("--model", model, "--engine", "lossless")
    treadle("exec", said, *options)
    for _ in range(6):
        treadle("exec", said, "--last", *options)
    (standing,) = treadle("lossless", "status", "--json").json["threads"]
    assert standing["summaries"] > 0
    assert (standing["degraded"], standing["debts"]) == (0, [])
