from __future__ import annotations

import asyncio
import re
import sqlite3

import pytest
from inline_snapshot import snapshot

from treadle.core.errors import ThreadBusy
from treadle.store import SqliteStore
from treadle.store.migrations import add_checksums


def numbers_apart(text: str) -> str:
    return re.sub(r"\d[\d,]{3,}", "N", text)


def columns(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@pytest.mark.usefixtures("worked")
def test_the_ledger_is_a_table_with_totals(treadle):
    table, totals = treadle("cache", "last").text.split("\n\n")
    header, *rows = columns(numbers_apart(table))
    assert header == ["STEP", "EPOCH", "SENT", "SHARED", "%", "CACHED", "TOKENS", "REASON"]
    assert [[row[0], row[1], *row[5:]] for row in rows] == snapshot(
        [
            ["1.1", "1", "0", "start"],
            ["1.2", "1", "N"],
            ["2.1", "1"],
            ["3.1", "18", "rollback", "at", "item", "7", "(entry", "14)"],
        ]
    )
    assert re.fullmatch(
        r"4 requests, [\d,]+ bytes sent, [\d,]+ shared \(\d+%\), 1 break, "
        r"1,900 of 4,100 input tokens cached \(46%\)\n",
        totals,
    )


def test_json_has_the_same_figures(treadle, worked):
    ledger = treadle("cache", "last", "--json").json
    rows = ledger["requests"]
    assert (ledger["thread"], ledger["rebuilt"]) == (worked, None)
    assert [row["reason"] for row in rows] == ["start", None, None, "rollback"]
    assert ledger["totals"] == {
        "requests": 4,
        "sent": sum(row["size"] for row in rows),
        "shared": sum(row["shared_size"] for row in rows),
        "unexplained": 0,
        "input_tokens": 4100,
        "cached_tokens": 1900,
    }


@pytest.mark.usefixtures("worked")
def test_a_lost_index_is_rebuilt_from_the_log_to_the_same_ledger(treadle):
    before = treadle("cache", "last", "--json").json["requests"]
    for file in treadle.home.glob("index.db*"):
        file.unlink()
    assert treadle("cache", "last").text == snapshot(
        "the index has no request; if the index was lost, --rebuild computes it from the log\n"
    )
    rebuilt = treadle("cache", "last", "--rebuild", "--check", "--json").json
    assert rebuilt["requests"] == before
    assert rebuilt["rebuilt"] == {"requests": 4, "differing": []}
    assert treadle("cache", "last", "--rebuild").lines[-1] == (
        "rebuilt 4 requests from the log; every byte is the same"
    )


@pytest.mark.usefixtures("worked")
def test_a_break_that_nothing_explains_is_loud(treadle):
    with sqlite3.connect(treadle.home / "index.db") as index:
        (table,) = index.execute("SELECT sql FROM sqlite_schema WHERE name = 'requests'").fetchone()
        assert "unexplained" in table
        index.execute("UPDATE requests SET unexplained = 1, difference = 'item 2' WHERE number = 2")
    index.close()
    done = treadle.attempt("cache", "last", "--check")
    assert done.code == 1
    assert "UNEXPLAINED at item 2" in done.text
    assert done.err == (
        "UNEXPLAINED: request 1.2 broke its prefix at item 2, and no entry says why; "
        "this is a defect, please report it\n"
    )
    assert treadle("cache", "last", "--json").json["totals"]["unexplained"] == 1


@pytest.mark.usefixtures("worked")
def test_requests_whose_bytes_differ_from_the_log_are_reported(treadle):
    with sqlite3.connect(treadle.home / "log.db") as log:
        log.execute(
            "UPDATE entries SET body = CAST(replace(CAST(body AS TEXT), 'make the', 'fake the') "
            "AS BLOB) WHERE kind = 'item'"
        )
        # With checksums that fit, as if it had been written so.
        log.execute("ALTER TABLE entries DROP COLUMN checksum")
        log.execute("DROP INDEX turns_open")
        add_checksums(log)
    log.close()
    done = treadle.attempt("cache", "last", "--rebuild", "--check")
    assert done.code == 1
    assert done.lines[-1] == (
        "rebuilt 4 requests from the log; 4 have OTHER BYTES than were sent, "
        "at entries 6, 10, 15, 20"
    )
    assert "OTHER bytes were sent" in treadle("prompt", "--thread", "last", "--at", "6").text


def test_a_thread_that_sent_nothing_says_so(treadle):
    treadle("new", "hello")
    assert treadle("cache", "last", "--rebuild").lines[0] == "this thread has sent no request yet"
    assert treadle("cache", "last", "--check", "--json").json["requests"] == []


async def test_a_thread_that_is_written_elsewhere_is_not_rebuilt(treadle, worked):
    async with await SqliteStore.open(treadle.home) as store:
        await store.acquire(worked)
        said = await asyncio.to_thread(treadle.refused, "cache", "last", "--rebuild")
        assert said.startswith(f"treadle: thread {worked!r} is being written by process ")
        with pytest.raises(ThreadBusy):
            await store.acquire(worked)
