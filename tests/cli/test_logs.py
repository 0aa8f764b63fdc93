"""Log lines of the command line: what they tell, and what they never do."""

from __future__ import annotations

import json

from tests.cli.scripts import scripted, shell
from tests.cli.terminal import Treadle


def test_turns_are_logged_as_json_without_their_words(treadle: Treadle) -> None:
    model = scripted(
        treadle,
        {"calls": [shell("echo planted-3")]},
        {"text": "planted-2", "reasoning": "planted-4"},
    )
    rights = ("--sandbox", "danger-full-access")
    done = treadle("--log-level", "debug", "--log-format", "json", "exec", "--model", model,
                   *rights, "planted-1")  # fmt: skip
    assert done.code == 0
    records = [json.loads(line) for line in done.err.splitlines() if line.startswith("{")]
    told = [each["message"] for each in records if each["logger"] == "treadle.turns"]
    assert any("started: scripted:" in each for each in told)
    assert any("of exec_command ok" in each for each in told)
    assert any("completed:" in each for each in told)
    assert {each["level"] for each in records} <= {"debug", "info", "warning"}
    assert "planted-" not in "".join(told)


def test_nothing_is_logged_by_default(treadle: Treadle) -> None:
    model = scripted(treadle, {"text": "hello"})
    done = treadle("exec", "--model", model, "--sandbox", "danger-full-access", "hi")
    assert "started" not in done.err


def test_a_level_that_does_not_exist_is_wrong_usage(treadle: Treadle) -> None:
    assert "loud" in treadle.refused("--log-level", "loud", "threads", code=2)
