"""Commands whose threads are in PostgreSQL."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def treadle(treadle, postgres_url):
    treadle.environ["TREADLE_STORE"] = postgres_url
    return treadle


def test_commands_work_on_threads_in_a_database(treadle):
    done = treadle("exec", "--json", "--model", "scripted:demo", "hello there")
    assert "This is a script" in done.text
    assert [each["turns"] for each in treadle("threads", "--json").json] == [1]
    assert "hello there" in treadle("show", "last").text
    assert "hello there" in treadle("recall", "hello").text
    ledger = treadle("cache", "last", "--rebuild", "--check", "--json").json
    assert ledger["totals"]["unexplained"] == 0
    assert ledger["rebuilt"] == {"requests": 2, "differing": []}
    assert not (treadle.home / "log.db").exists()
    # In the home there is still the other store, for who asks for it.
    assert treadle("--store", "sqlite", "threads", "--json").json == []
    treadle("fork", "last", "--json")
    treadle("delete", "last", "--yes")
    assert len(treadle("threads", "--json").json) == 1


def test_the_doctor_says_how_leases_are_held(treadle):
    done = treadle.attempt("doctor", "--json")
    (check,) = [check for check in done.json["checks"] if check["name"] == "store"]
    assert "leases are held by session locks" in check["detail"]
    assert "`fsync` is off" in check["detail"]
    assert "postgresql.conf" in check["remedy"]


def test_where_threads_live_is_the_users_to_say(treadle, postgres_url):
    del treadle.environ["TREADLE_STORE"]
    file = treadle.project / ".treadle" / "config.toml"
    file.parent.mkdir()
    file.write_text(f"store = {json.dumps(postgres_url)}\n")
    assert "not a project's to say" in treadle.refused("trust")
    file.unlink()
    (treadle.home / "config.toml").write_text(f"store = {json.dumps(postgres_url)}\n")
    treadle("exec", "--model", "scripted:demo", "hello")
    assert not (treadle.home / "log.db").exists()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql://me:hushhush@127.0.0.1:1/agents", "cannot be reached"),
        ("mysql://me:hushhush@127.0.0.1/agents", "is neither 'postgresql://USER@HOST"),
        ("postgres:/me:hushhush@127.0.0.1", "is neither 'postgresql://USER@HOST"),
        (
            "postgresql://me:hush#hushhush@127.0.0.1:x/agents",
            'value "x" for connection option "port"',
        ),
        ("postgresql://127.0.0.1/agents?no_such=hushhush", "cannot be read"),
    ],
)
def test_an_address_that_is_wrong_is_told_without_its_password(treadle, address, said):
    treadle.environ["TREADLE_STORE"] = address
    done = treadle.attempt("threads")
    assert (done.code, said in done.err) == (1, True), done
    assert "hushhush" not in done.err + done.text
    assert "hushhush" not in treadle("config", "explain", "store").text
    assert len(done.err.splitlines()) == 1


@pytest.mark.usefixtures("worked")
def test_threads_move_into_a_database_and_back(treadle, postgres_url):
    del treadle.environ["TREADLE_STORE"]
    shown = treadle("show", "last", "--json").out
    assert "name another store" in treadle.refused("transfer", "last", "--to", "sqlite", code=2)
    moved = treadle("transfer", "--all", "--to", postgres_url, "--json").json
    assert [each["requests"] for each in moved["threads"]] == [4]
    assert treadle("threads", "--json").json == []
    assert treadle("--store", postgres_url, "show", "last", "--json").out == shown
    back = treadle("--store", postgres_url, "transfer", "last", "--to", "sqlite")
    assert back.text.startswith("moved 1 thread\n")
    assert treadle("show", "last", "--json").out == shown
    assert treadle("cache", "last", "--check", "--json").json["totals"]["requests"] == 4
