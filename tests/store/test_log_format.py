from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from treadle.core.entries import CONTROLS, Flags
from treadle.store import Change, SqliteStore
from treadle.store.database import open_writer
from treadle.testing.contracts.drafts import append, user_body, user_draft

DOCUMENT = (Path(__file__).parents[2] / "docs" / "log-format.md").read_text()


def section(heading: str) -> str:
    return re.split(rf"^###? .*{heading}.*$", DOCUMENT, flags=re.MULTILINE)[1].split("\n##")[0]


def test_every_table_and_column_is_described(tmp_path):
    with closing(open_writer(tmp_path / "log.db")) as connection:
        names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        for (table,) in connection.execute(names).fetchall():
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            told = set(re.findall(r"`([a-z_]+)`", section(table)))
            assert set(columns) - told == set(), table
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
    assert f"**{version}**" in DOCUMENT
    assert f"`{application:#x}`" in DOCUMENT


def test_every_control_entry_has_an_example_that_can_be_read():
    examples = dict(re.findall(r"^\| `(\w+)` \| `(\{.*?\})` \|", section("Bodies"), re.MULTILINE))
    assert examples.keys() == CONTROLS.keys()
    for kind, example in examples.items():
        control = msgspec.json.decode(example, type=CONTROLS[kind])
        assert msgspec.json.encode(control).decode() == example


def test_the_flags_are_described():
    for flag in (Flags.CONTEXTUAL, Flags.VOLATILE, Flags.HIDDEN):
        assert f"{flag.value} {str(flag.name).lower()}" in DOCUMENT


async def test_the_query_for_a_fork_reads_its_log(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        root = (await store.create()).id
        await append(store, root, Change(entries=tuple(map(user_draft, "abcd"))))
        child = (await store.fork(root, 3)).id
        await append(store, child, Change(entries=(user_draft("x"), user_draft("y" * 70_000))))
        inside = (await store.fork(child, 2)).id
        await append(store, inside, Change(entries=(user_draft("z"),)))
        leaf = (await store.fork(child, 5)).id
    query = DOCUMENT.split("```sql\n")[1].split("```")[0]
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection:
        logs = {
            thread: [(seq, body) for seq, _, body in connection.execute(query, {"thread": thread})]
            for thread in (root, inside, leaf)
        }
    assert logs == {
        root: list(enumerate(map(user_body, "abcd"), 1)),
        inside: list(enumerate(map(user_body, "abz"), 1)),
        leaf: list(enumerate(map(user_body, ["a", "b", "c", "x", "y" * 70_000]), 1)),
    }
