"""The store: damaged, replaced and deleted files below Treadle's home.

Weakness: the damage comes with the checksum that fits it, or nothing was damaged but the words
that are compared.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from attack.attempt import Area
from attack.command_line import treadle
from attack.ground import Ground, Heard, listen
from treadle.core.errors import TreadleError
from treadle.store import SqliteStore
from treadle.testing.script import Answer, Script
from treadle.testing.scripted import ScriptedModel

__all__ = ["AREA"]

AREA = Area("store", "files that are damaged or gone", "the checksum fits the damage")

WORD = "kumquat"
"""Stands in every text of the log that is damaged."""


def talk(ground: Ground, turns: int = 3) -> str:
    """Make a thread with a few turns in a process of its own way; return its id."""

    async def run() -> str:
        answers = [Answer(text=f"{WORD} {n} " + "words " * 40) for n in range(turns)]
        heard = await ground.converse(answers, *(f"{WORD} question {n}" for n in range(turns)))
        return heard.thread

    return asyncio.run(run())


def edit(home: Path, *statements: str) -> None:
    """Change the log behind Treadle's back."""
    with closing(sqlite3.connect(home / "log.db")) as connection, connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def read_all(ground: Ground, thread: str) -> list[bytes]:
    """Read every item of a thread as Treadle reads it. Raises `TreadleError`."""

    async def read() -> list[bytes]:
        async with await SqliteStore.open(ground.home) as store:
            entries = await store.read(thread)
            for entry in entries:
                _ = entry.item if entry.kind == "item" else entry.control
            return [bytes(entry.body) for entry in entries]

    return asyncio.run(read())


def go_on(ground: Ground, thread: str) -> str:
    """Run a further turn; return how it ended."""

    async def run() -> str:
        heard = await ground.converse([Answer(text="on it goes")], "go on", thread=thread)
        return heard.ends[-1].status

    return asyncio.run(run())


FLIPS = {
    "a text": "body = CAST(replace(CAST(body AS TEXT), '{w}', '{v}') AS BLOB)",
    "a time": "time = time + 1",
    "a turn": "turn = turn + 1",
    "flags": "flags = flags + 2",
    "a size": "tokens = coalesce(tokens, 0) + 1",
    "an item's id": "item = 'msg_forged'",
}


@AREA.each(FLIPS, quick="a text", proof=True)
def change_an_entry(ground: Ground, change: str) -> str:
    """A bit of an entry is flipped in the log. Through if it is read as if it were true."""
    thread = talk(ground)
    before = read_all(ground, thread)
    weak = ", checksum = NULL" if ground.weak else ""
    where = f"WHERE kind = 'item' AND CAST(body AS TEXT) LIKE '%{WORD}%'"
    edit(
        ground.home, f"UPDATE entries SET {change.format(w=WORD, v=WORD[:-1] + 'u')}{weak} {where}"
    )
    try:
        after = read_all(ground, thread)
    except TreadleError:
        return ""
    return f"it was read; the texts are {'the same' if after == before else 'others'}"


@AREA.attempt(proof=True)
def have_the_doctor_miss_it(ground: Ground) -> str:
    """A bit of a text is flipped, and the user asks `treadle doctor`. Through if all is well."""
    talk(ground)
    weak = ", checksum = NULL" if ground.weak else ""
    change = FLIPS["a text"].format(w=WORD, v=WORD[:-1] + "u")
    edit(ground.home, f"UPDATE entries SET {change}{weak} WHERE CAST(body AS TEXT) LIKE '%{WORD}%'")
    done = treadle(ground, "doctor", "--json")
    checks = {each["name"]: each["status"] for each in json.loads(done.out)["checks"]}
    return "" if checks["log"] == "fail" else f"the doctor says {checks['log']!r} of the log"


@AREA.attempt(seconds=60)
def flip_bits_of_the_log(ground: Ground) -> str:
    """Random bytes of the log's file are changed, in forty copies of a home.

    Through if a text is read that was never written, or something else than a clear error is
    raised.
    """
    thread = talk(ground)
    before = read_all(ground, thread)
    data = (ground.home / "log.db").read_bytes()
    chance = random.Random("attack")
    for number in range(40):
        changed = bytearray(data)
        at = chance.randrange(100, len(changed))
        changed[at] ^= 1 << chance.randrange(8)
        said = _read_damaged(ground, thread, bytes(changed), before)
        if said:
            return f"copy {number}, byte {at}: {said}"
    return ""


def _read_damaged(ground: Ground, thread: str, data: bytes, before: list[bytes]) -> str:
    for name in ("log.db-wal", "log.db-shm"):
        (ground.home / name).unlink(missing_ok=True)
    (ground.home / "log.db").write_bytes(data)
    try:
        after = read_all(ground, thread)
    except TreadleError:
        return ""
    except Exception as error:  # noqa: BLE001 - whatever it is, it is evidence
        return f"it raised {error!r}"
    strange = [body for body in after if body not in before]
    return f"it read {strange[0]!r}" if strange else ""


@AREA.attempt(seconds=60)
def flip_bits_of_the_index(ground: Ground) -> str:
    """Random bytes of the index are changed, in twenty-five copies of it.

    Through if the thread cannot go on: an index is built anew from the log.
    """
    thread = talk(ground)
    file = ground.home / "index.db"
    chance = random.Random("attack")
    for number in range(25):
        data = bytearray(file.read_bytes())
        for _ in range(3):
            # A third of them in the first page, where the schema is.
            end = 4096 if number % 3 == 0 else len(data)
            data[chance.randrange(100, end)] ^= 1 << chance.randrange(8)
        for name in ("index.db-wal", "index.db-shm"):
            (ground.home / name).unlink(missing_ok=True)
        file.write_bytes(bytes(data))
        try:
            status = go_on(ground, thread)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is evidence
            return f"copy {number}: it raised {error!r}"
        if status != "completed":
            return f"copy {number}: the turn ended as {status}"
    return ""


COLUMNS = {
    f"{column} of {table}": (table, column)
    for table, columns in {
        "entries": ("kind", "turn", "time", "flags"),
        "turns": ("turn", "state", "input"),
        "threads": ("cwd", "last", "turns"),
    }.items()
    for column in columns
}


@AREA.each(COLUMNS)
def put_nothing_where_something_must_be(ground: Ground, place: tuple[str, str]) -> str:
    """A value in the log is NULL that never may be.

    Through if a command of the user's ends with a traceback, or goes on as if all were well.
    """
    table, column = place
    thread = talk(ground, 1)
    edit(
        ground.home,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '        ') "
        f"WHERE name = '{table}'",
    )
    more = ", checksum = NULL" if table == "entries" else ""
    edit(ground.home, f"UPDATE {table} SET {column} = NULL{more}")
    for words in (("show", thread), ("threads",), ("doctor",)):
        done = treadle(ground, *words)
        if "Traceback" in done.err:
            return f"`treadle {words[0]}` ended with {done.err[-300:]}"
    script = ground.top / "s.jsonl"
    script.write_text('{"text": "on it goes"}\n')
    done = treadle(ground, "exec", "go on", "--resume", thread, "--model", f"scripted:{script}")
    if "Traceback" in done.err:
        return f"`treadle exec` ended with {done.err[-300:]}"
    return "a turn went on" if done.code == 0 and table != "turns" else ""


def _unlink(*names: str) -> Callable[[Path], None]:
    def strike(home: Path) -> None:
        for name in names:
            (home / name).unlink(missing_ok=True)

    return strike


def _replace(home: Path) -> None:
    shutil.copy(home / "log.db", home / "copy")
    (home / "copy").replace(home / "log.db")


def _move(home: Path) -> None:
    home.rename(home.with_name("elsewhere"))


STRIKES: dict[str, Callable[[Path], None]] = {
    "the log is deleted": _unlink("log.db"),
    "the log and its companions are deleted": _unlink("log.db", "log.db-wal", "log.db-shm"),
    "its newest part is deleted": _unlink("log.db-wal"),
    "the log is replaced": _replace,
    "the home is moved away": _move,
}


@AREA.each(STRIKES, quick="the log is deleted")
def acknowledge_into_nothing(ground: Ground, strike: Callable[[Path], None]) -> str:
    """Somebody deletes or replaces the log while a thread is open, and a turn runs.

    Through if the turn is told as completed, and is not in the log that lies there afterwards.
    """

    async def run() -> tuple[str, list[str]]:
        model = ScriptedModel(Script(answers=(Answer(text="said", times=0),)))
        heard = Heard()
        thread = ""
        try:
            async with ground.open(model) as opened:
                thread = opened.id
                await listen(opened, heard, "before")
                strike(ground.home)
                await listen(opened, heard, f"{WORD} after")
        except TreadleError:
            pass
        finally:
            await model.close()
        return thread, [end.status for end in heard.ends]

    thread, ends = asyncio.run(run())
    if ends[1:] != ["completed"]:
        return ""
    try:
        kept = read_all(ground, thread)
    except TreadleError:
        return "the turn was told as completed, and there is no log"
    found = any(f"{WORD} after".encode() in body for body in kept)
    return "" if found else "the turn was told as completed, and is in no log"


@AREA.attempt(quick=True, proof=True)
def bring_a_log_of_the_future(ground: Ground) -> str:
    """The log has a version that this Treadle does not know. Through if a turn is written to it.

    (Weak: it has the version that it knows.)
    """
    thread = talk(ground, 1)
    if not ground.weak:
        edit(ground.home, "PRAGMA user_version = 99")
    before = (ground.home / "log.db").read_bytes()
    script = ground.top / "s.jsonl"
    script.write_text('{"text": "on it goes"}\n')
    done = treadle(ground, "exec", "go on", "--resume", thread, "--model", f"scripted:{script}")
    if "Traceback" in done.err:
        return f"it ended with {done.err[-300:]}"
    same = (ground.home / "log.db").read_bytes() == before
    return "a turn was written" if done.code == 0 or not same else ""
