from __future__ import annotations

import sqlite3
import stat
from functools import partial

import pytest

from treadle.core.errors import StoreReadOnly
from treadle.policy.auth.auth_state import AuthState
from treadle.policy.auth.cooldowns import ProfileHealth, after_failure
from treadle.policy.auth.credential import Source
from treadle.policy.auth.order import Pin

from .scenes import Child, Clock, everything_in

DAY = 86_400_000


def pin(thread: str, profile: str = "openai:a", source: Source = "auto") -> Pin:
    return Pin(thread=thread, provider="openai", profile=profile, source=source)


def test_looking_makes_no_file(tmp_path):
    state = AuthState(tmp_path / "none")
    assert (state.health(), state.orders(), state.pin("t"), state.last_good()) == ({}, {}, None, {})
    assert not (tmp_path / "none").exists()


def test_what_is_remembered_is_there_for_the_next_process(tmp_path):
    state = AuthState(tmp_path)
    after = state.update_health("openai:a", partial(after_failure, reason="billing", now=5))
    state.mark_used("openai:b", lambda before: ProfileHealth(last_used=before.last_used + 7))
    state.set_order("openai", ("openai:b", "openai:a"))
    state.set_pin(pin("t"))
    again = AuthState(tmp_path)
    assert again.health() == {"openai:a": after, "openai:b": ProfileHealth(last_used=7)}
    assert again.orders() == {"openai": ("openai:b", "openai:a")}
    assert (again.pin("t"), again.last_good()) == (pin("t"), {"openai": "openai:b"})
    again.set_order("openai", ())
    again.forget("openai:b")
    assert (again.orders(), again.last_good()) == ({}, {})
    assert again.health() == {"openai:a": after}


def test_the_file_belongs_to_its_owner_only(tmp_path):
    AuthState(tmp_path).set_order("openai", ("openai:a",))
    assert stat.S_IMODE((tmp_path / "auth-state.db").stat().st_mode) == 0o600


def test_processes_that_note_failures_at_once_add_up(tmp_path):
    code = """
from treadle.policy.auth.cooldowns import after_failure
from treadle.policy.auth.credential import Source
from treadle.policy.auth.auth_state import AuthState
for n in range(40):
    AuthState(home).update_health("openai:a", lambda before: after_failure(before, "auth", 5))
"""
    children = [Child(code, tmp_path) for _ in range(3)]
    for child in children:
        child.end()
    assert AuthState(tmp_path).health()["openai:a"].failures == {"auth": 120}


def test_a_step_that_fails_changes_nothing(tmp_path):
    state = AuthState(tmp_path)
    before = state.update_health("openai:a", partial(after_failure, reason="auth", now=5))
    with pytest.raises(ZeroDivisionError):
        state.update_health(
            "openai:a", lambda health: ProfileHealth(last_used=1 // health.last_used)
        )
    assert state.health() == {"openai:a": before}


def test_a_chosen_pin_is_not_moved_by_one_that_nobody_chose(tmp_path):
    state = AuthState(tmp_path)
    state.set_pin(pin("t", "openai:a"))
    state.set_pin(pin("t", "openai:b", "user"))
    state.set_pin(pin("t", "openai:c"))
    assert state.pin("t") == pin("t", "openai:b", "user")
    assert not state.unpin("t", source="auto")
    assert not state.unpin("t", only=pin("t", "openai:a"))
    assert state.unpin("t", only=pin("t", "openai:b", "user"))
    assert state.pin("t") is None


def test_pins_of_threads_that_are_not_used_any_more_go_away_unless_they_were_chosen(tmp_path):
    clock = Clock()
    state = AuthState(tmp_path, clock)
    state.set_pin(pin("old"))
    state.set_pin(pin("chosen", source="user"))
    clock.at += 91 * DAY
    state.set_pin(pin("new"))
    assert [state.pin(name) is not None for name in ("old", "chosen", "new")] == [False, True, True]


@pytest.mark.parametrize("body", [b"garbage" * 999, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_file_is_set_aside_and_said_to_be(tmp_path, body, caplog):
    (tmp_path / "auth-state.db").write_bytes(body)
    state = AuthState(tmp_path)
    assert state.health() == {}
    state.set_order("openai", ("openai:a",))
    assert state.order("openai") == ("openai:a",)
    assert (tmp_path / "auth-state.db.damaged").read_bytes() == body
    assert "start again from nothing" in caplog.text


def test_a_file_of_another_program_is_set_aside(tmp_path):
    with sqlite3.connect(tmp_path / "auth-state.db") as other:
        other.execute("CREATE TABLE mine (x)")
        other.execute("PRAGMA user_version = 7")
    other.close()
    AuthState(tmp_path).set_order("openai", ("openai:a",))
    assert (tmp_path / "auth-state.db.damaged").exists()


def test_hostile_rows_are_as_good_as_none(tmp_path):
    state = AuthState(tmp_path)
    state.update_health("openai:a", partial(after_failure, reason="auth", now=5))
    state.set_order("openai", ("openai:a",))
    with sqlite3.connect(tmp_path / "auth-state.db") as database:
        for value in ("[[[", '{"last_used": "planted"}', "x" * 99):
            database.execute("UPDATE health SET value = ?", (value,))
            database.commit()
            assert state.health() == {"openai:a": ProfileHealth()}
        database.execute("UPDATE orders SET ids = '{}'")
        database.commit()
    database.close()
    assert state.order("openai") == ()


def test_a_home_that_cannot_be_written_is_an_error_of_the_store(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreReadOnly):
        AuthState(tmp_path / "file" / "home").set_order("openai", ("openai:a",))


def test_the_file_holds_ids_and_times_and_nothing_else(tmp_path):
    state = AuthState(tmp_path, Clock())
    state.mark_used("openai:a", partial(after_failure, reason="billing", now=5))
    assert sorted(everything_in(tmp_path)) == ["auth-state.db"]
