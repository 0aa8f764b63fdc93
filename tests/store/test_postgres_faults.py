"""What users are told when a database is not as it should be."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from treadle.core.errors import (
    ConfigError,
    StoreError,
    StoreReadOnly,
    StoreTooNew,
    StoreUnreachable,
)
from treadle.core.redact import add_secrets
from treadle.store import Change, PostgresStore
from treadle.store.postgres.database_layout import STEPS
from treadle.testing.contracts.drafts import append, user_body, user_draft

from .postgres_wires import parted


@pytest.fixture
def ask(postgres_url):
    """Run statements as the owner of the server, by default in the server's own database."""

    def ask(sql: str, database: str = "postgres") -> list[Any]:
        address = f"{parted(postgres_url)[0]}/{database}"
        with psycopg.connect(address, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    return ask


@pytest.fixture
def fresh(postgres_url, ask):
    """The address of a database without our tables."""
    name = f"fresh_{parted(postgres_url)[1]}"
    ask(f"CREATE DATABASE {name}")
    yield f"{parted(postgres_url)[0]}/{name}"
    ask(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def login(ask: Any, name: str) -> Iterator[None]:
    ask(f"CREATE ROLE {name} LOGIN PASSWORD 'right'")
    try:
        yield
    finally:
        ask(f"DROP ROLE {name}")


async def test_a_database_of_an_earlier_layout_is_brought_up_to_date(fresh, ask):
    name = parted(fresh)[1]
    ask("CREATE SCHEMA treadle", name)
    ask(STEPS[0], name)
    ask("UPDATE treadle.layout SET version = 1", name)
    ask(
        "INSERT INTO treadle.threads (id, cwd, title, created, updated) "
        "VALUES ('thr_old', '', 'kept', 1, 1)",
        name,
    )
    async with await PostgresStore.open(fresh) as store:
        assert [info.title for info in await store.threads()] == ["kept"]
        await append(store, "thr_old", Change(entries=(user_draft("new"),)))
    assert ask("SELECT version FROM treadle.layout", name) == [(len(STEPS),)]


async def test_a_new_database_is_opened_many_times_at_once(fresh):
    stores = await asyncio.gather(*(PostgresStore.open(fresh) for _ in range(6)))
    threads = {(await store.create()).id for store in stores}
    assert {info.id for info in await stores[0].threads()} == threads
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_database_of_a_newer_layout_is_left_alone(fresh, ask):
    async with await PostgresStore.open(fresh):
        pass
    ask("UPDATE treadle.layout SET version = 99", parted(fresh)[1])
    with pytest.raises(StoreTooNew, match=r"layout 99.*upgrade Treadle"):
        await PostgresStore.open(fresh)
    assert ask("SELECT version FROM treadle.layout", parted(fresh)[1]) == [(99,)]


async def test_a_database_of_another_encoding_is_refused_before_anything_is_made(postgres_url, ask):
    name = f"latin_{parted(postgres_url)[1]}"
    ask(f"CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    with pytest.raises(ConfigError, match="'LATIN1', and threads need UTF8"):
        await PostgresStore.open(f"{parted(postgres_url)[0]}/{name}")
    assert ask("SELECT to_regnamespace('treadle') IS NULL", name) == [(True,)]
    ask(f"DROP DATABASE {name}")


async def test_who_may_only_read_can_read(fresh, ask):
    name = parted(fresh)[1]
    reader = fresh.replace("treadle@", f"reader_{name}@")
    with login(ask, f"reader_{name}"):
        with pytest.raises(StoreReadOnly, match=r"permission denied.*GRANT"):
            await PostgresStore.open(reader)
        async with await PostgresStore.open(fresh) as store:
            thread = (await store.create()).id
            await append(store, thread, Change(entries=(user_draft("a"),)))
        for schema in ("treadle", "treadle_index"):
            ask(f"GRANT USAGE ON SCHEMA {schema} TO reader_{name}", name)
            ask(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader_{name}", name)
        for address, read_only in ((reader, False), (fresh, True)):
            async with await PostgresStore.open(address, read_only=read_only) as store:
                assert store.read_only
                assert [entry.body for entry in await store.read(thread)] == [user_body("a")]
                for writes in (store.create(), store.acquire(thread), store.delete(thread)):
                    with pytest.raises(StoreReadOnly, match="only read"):
                        await writes
        ask(f"DROP OWNED BY reader_{name}", name)


async def test_a_wrong_password_and_a_missing_database_are_told_as_what_they_are(postgres_url, ask):
    server, name = parted(postgres_url)
    guarded = server.replace("treadle@", f"guarded_{name}:wrong@")
    ((file, rules),) = ask("SELECT f, pg_read_file(f) FROM current_setting('hba_file') AS f")
    rule = f"host all guarded_{name} 127.0.0.1/32 scram-sha-256"
    lines = ", ".join(f"('{line}')" for line in (rule, *rules.splitlines()) if line[:1] != "#")
    try:
        with login(ask, f"guarded_{name}"):
            ask(f"COPY (VALUES {lines}) TO '{file}'")
            ask("SELECT pg_reload_conf()")
            await asyncio.sleep(0.2)
            with pytest.raises(StoreUnreachable, match="password authentication failed") as caught:
                await PostgresStore.open(f"{guarded}/{name}")
            assert "PGPASSWORD" in str(caught.value)
            assert "wrong" not in str(caught.value)
            right = f"{guarded}/{name}".replace("wrong", "right")
            with pytest.raises(StoreReadOnly, match="permission denied"):
                await PostgresStore.open(right)
    finally:
        kept = ", ".join(f"('{line}')" for line in rules.splitlines() if line[:1] != "#")
        ask(f"COPY (VALUES {kept}) TO '{file}'")
        ask("SELECT pg_reload_conf()")
    with pytest.raises(StoreUnreachable, match=r'"nowhere" does not exist.*createdb'):
        await PostgresStore.open(f"{server}/nowhere")


def test_a_driver_that_is_not_installed_is_named_with_what_brings_it():
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from treadle.core.errors import ConfigError\n"
        "try:\n    from treadle.store import PostgresStore\n"
        "except ConfigError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "need the driver psycopg" in done.stdout
    assert "postgres]" in done.stdout


async def test_what_a_database_cannot_hold_is_refused_and_what_it_should_not_is_left_out(
    postgres_url, ask
):
    async with await PostgresStore.open(postgres_url) as store:
        with pytest.raises(StoreError, match="the character NUL"):
            await store.create(title="a\0b")
        assert await store.threads() == []
        thread = (await store.create()).id
        lease = await store.acquire(thread)
        with pytest.raises(StoreError, match="the character NUL"):
            await store.commit(lease, Change(title="a\0b", entries=(user_draft("lost"),)))
        add_secrets("sk-planted-in-a-test-000000000000")
        await store.commit(
            lease, Change(entries=(user_draft("say sk-planted-in-a-test-000000000000"),))
        )
        assert [entry.seq for entry in await store.read(thread)] == [1]
        name = parted(postgres_url)[1]
        (found,) = ask("SELECT convert_from(body, 'UTF8') FROM treadle.entries", name)
        assert "planted" not in found[0]
        assert await store.find_damaged() == []
        ask("UPDATE treadle.entries SET body = 'changed'", name)
        assert await store.find_damaged() == [f"entry 1 of thread {thread}"]
