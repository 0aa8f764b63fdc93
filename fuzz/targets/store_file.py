"""The log on disk: bytes that changed, and columns that lie."""

from __future__ import annotations

import asyncio
import functools
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from fuzz.cutting import head_and_rest
from treadle.core.entries import Draft, FragmentMark, Origin
from treadle.core.errors import TreadleError
from treadle.core.provenance import InputProvenance
from treadle.store import Change, SqliteStore
from treadle.testing.contracts.drafts import append, turn_change, user_body

__all__ = ["WORDS", "check"]

WORDS = (
    *(b"{}", b"[]", b'{"type":"message"}', b'[{"id":"x"}]', b"null", b"\xff", b"-1", b"rollback"),
    *(b"9223372036854775807", b"item", b"epoch", b"1e999", b'{"kind":"', b"\0", b'"', b"recipe"),
)
_COLUMNS = (
    *("entries.kind", "entries.item", "entries.turn", "entries.step", "entries.time"),
    *("entries.tokens", "entries.flags", "entries.fragments", "entries.provenance"),
    *("entries.events", "entries.origin", "entries.blob", "entries.body", "origins.origin"),
    *("threads.parent", "threads.cut", "threads.last", "threads.turns", "threads.title"),
    *("turns.first", "turns.state", "turns.outcome", "turns.usage", "turns.input", "turns.turn"),
    *("inbox.provenance", "inbox.events", "inbox.body", "outbox.body", "outbox.state"),
    *("blobs.digest", "blobs.data", "entries.id", "threads.fence"),
)


def check(data: bytes) -> None:
    """Whatever the file holds, reading it gives values or a typed error."""
    (choice,), value = head_and_rest(data)
    with tempfile.TemporaryDirectory(prefix="treadle-fuzz-") as place:
        path = Path(place) / "log.db"
        shutil.copyfile(_sound(), path)
        if choice < len(_COLUMNS):
            _lie(path, _COLUMNS[choice], value)
        else:
            _scramble(path, value)
        asyncio.run(_read(path.parent))


@functools.cache
def _sound() -> Path:
    """A small log in which every table has a row."""
    place = Path(tempfile.mkdtemp(prefix="treadle-fuzz-log-"))
    asyncio.run(_written(place))
    with closing(sqlite3.connect(place / "log.db")) as database:
        database.execute("PRAGMA journal_mode = DELETE")
    return place / "log.db"


async def _written(place: Path) -> None:
    async with await SqliteStore.open(place) as store:
        thread = (await store.create(title="t")).id
        marked = Draft(
            body=user_body("marked"),
            fragments=(FragmentMark(id="f", part=0),),
            provenance=InputProvenance(kind="external_user"),
            origin=Origin(provider="p"),
        )
        await append(store, thread, turn_change("one", "hello", "there"), Change(entries=(marked,)))
        await store.put_blob(thread, b"blob")
        await store.fork(thread, 2)


def _lie(path: Path, column: str, value: bytes) -> None:
    table, name = column.split(".")
    given: object = value
    with suppress(ValueError):
        given = value.decode()
        given = int(given)
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as database,
        suppress(sqlite3.Error, OverflowError),
    ):
        database.execute(f"UPDATE OR IGNORE {table} SET {name} = ?", (given,))


def _scramble(path: Path, value: bytes) -> None:
    data = bytearray(path.read_bytes())
    for at in range(0, len(value) - 3, 4):
        data[int.from_bytes(value[at : at + 3]) % len(data)] = value[at + 3]
    path.write_bytes(data)


async def _read(place: Path) -> None:
    with suppress(TreadleError):
        async with await SqliteStore.open(place, busy_seconds=0.1) as store:
            for info in await store.threads():
                with suppress(TreadleError):
                    await store.read(info.id)
                with suppress(TreadleError):
                    await store.turns(info.id)
