from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.fork_server import Process

from .scripts import scripted, shell
from .terminal import SCRIPT, Treadle

SLOW = "echo began >> effects.txt; sleep 60; echo ended >> effects.txt"


@pytest.fixture
def model(treadle: Treadle) -> str:
    return scripted(
        treadle,
        {"when": "be slow", "calls": [shell(SLOW)], "times": 0},
        {"when": "be quick", "calls": [shell("echo quick >> effects.txt")], "times": 0},
        {"when": "Outcome unknown", "text": "I cannot know.", "times": 0},
        {"text": "fine", "times": 0},
    )


def new_thread(treadle: Treadle, model: str, *options: str) -> str:
    rights = ("--sandbox", "danger-full-access", "--approval", "never")
    events = treadle("exec", "--json", "--model", model, *rights, *options, "hello").json_lines
    return str(next(each["thread"] for each in events if "thread" in each))


def working(treadle: Treadle, *options: str) -> Process:
    return Process([SCRIPT, "work", "--json", *options], cwd=treadle.project, env=treadle.env)


def told(process: Process) -> dict[str, object]:
    return dict(json.loads(process.stdout.readline()))


def effects(treadle: Treadle) -> list[str]:
    file = treadle.project / "effects.txt"
    return file.read_text().split() if file.exists() else []


def wait_for_effect(treadle: Treadle) -> None:
    while not effects(treadle):
        pass


def test_a_worker_runs_what_was_sent_with_the_rights_of_the_thread(treadle, model):
    thread = new_thread(treadle, model)
    treadle("send", thread, "be quick")
    done = treadle("work", "--once", "--json")
    assert [each["type"] for each in done.json_lines] == ["taken", "ended"]
    assert effects(treadle) == ["quick"]
    # The model was told nothing new of its rights: they are those that it had.
    assert done.json_lines[1]["status"] == "completed"
    shown = treadle("show", thread, "--all", "--json").json_lines
    told = [each for each in shown if "<permissions" in json.dumps(each)]
    assert len(told) == 1
    assert treadle("work", "--once").out == b""


def test_a_turn_of_a_killed_worker_goes_on_in_another_one_and_nothing_is_done_twice(treadle, model):
    thread = new_thread(treadle, model)
    with working(treadle) as first:
        treadle("send", thread, "be slow")
        assert told(first)["type"] == "taken"
        wait_for_effect(treadle)
        with working(treadle) as second:
            first.send_signal(signal.SIGKILL)
            first.wait()
            taken, ended = told(second), told(second)
            assert (taken["type"], taken["attempt"]) == ("taken", 2)
            assert (ended["type"], ended["status"]) == ("ended", "completed")
            assert ended["turn"] == taken["turn"]
            second.send_signal(signal.SIGTERM)
            assert second.wait() == 0
    assert effects(treadle) == ["began"]
    shown = treadle("show", thread).text
    assert shown.count("Outcome unknown") == 1
    assert "I cannot know." in shown


def test_a_worker_that_is_asked_twice_to_end_hands_its_turn_back(treadle, model):
    thread = new_thread(treadle, model)
    treadle("send", thread, "be slow")
    with working(treadle, "--grace", "60") as worker:
        assert told(worker)["type"] == "taken"
        wait_for_effect(treadle)
        worker.send_signal(signal.SIGTERM)
        worker.send_signal(signal.SIGINT)
        assert told(worker)["type"] == "handed_back"
        assert worker.wait() == 0
    done = treadle("work", "--once", "--json").json_lines
    assert done[-1]["status"] == "completed"
    assert effects(treadle) == ["began"]


def test_a_missing_directory_fails_the_turn_with_its_reason_and_loses_nothing(treadle, model):
    gone = treadle.project / "gone"
    gone.mkdir()
    thread = new_thread(treadle, model, "-C", str(gone))
    gone.rmdir()
    treadle("send", thread, "be quick")
    done = treadle.attempt("work", "--once", "--json", "--attempts", "1")
    (failed,) = done.json_lines
    assert done.code == 1
    assert (failed["type"], failed["gave_up"]) == ("attempt_failed", True)
    assert str(gone) in failed["error"]
    shown = treadle("show", thread, "--all").text
    assert "be quick" in shown
    assert "given up after 1 attempts" in " ".join(shown.split())
    gone.mkdir()
    treadle("send", thread, "and now?")
    assert treadle("work", "--once", "--json").json_lines[-1]["status"] == "completed"


def test_whoever_follows_a_thread_reads_the_answer_while_a_worker_has_it_made(treadle):
    model = scripted(treadle, {"text": "one two three four five six", "pace": 0.3, "times": 0})
    thread = new_thread(treadle, model)
    following = Process([SCRIPT, "show", thread, "--follow"], cwd=treadle.project, env=treadle.env)
    pieces = Process(
        [SCRIPT, "show", thread, "--follow", "--json"], cwd=treadle.project, env=treadle.env
    )
    with following, pieces, working(treadle):
        while following.stdout.readline().strip() != b"one two three four five six":
            pass
        treadle("send", thread, "again")
        while following.stdout.readline().strip() != b"again":
            pass
        lines = [following.stdout.readline().strip() for _ in range(3)]
        assert lines[0] == b""
        assert lines[1].startswith(b"assistant")
        assert lines[2] == b"one two three four five six"
        while b'"live"' not in pieces.stdout.readline():
            pass
        for process in (following, pieces):
            process.send_signal(signal.SIGINT)
            assert process.wait() == 130


def test_an_address_that_is_none_is_refused_before_anything_runs(treadle):
    assert "HOST:PORT" in treadle.refused("work", "--live", "here", code=2)


def test_a_worker_without_a_log_to_look_at_waits_for_one(treadle: Treadle):
    assert treadle("work", "--once").out == b""
    assert Path(treadle.home, "log.db").exists()
