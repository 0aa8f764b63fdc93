"""Limits on the command line: flags, settings, exit codes, and what is shown."""

from __future__ import annotations

import json

import pytest

from .scripts import scripted
from .terminal import Done, Treadle
from .window import window

ECHO = {"calls": [{"name": "exec_command", "arguments": {"cmd": "echo seen", "login": False}}]}
FLAGS = ("--sandbox", "danger-full-access")


def limited(treadle: Treadle, *args: str) -> Done:
    """What is printed by a command whose turn ends at a limit."""
    done = treadle.attempt(*args, *FLAGS)
    assert (done.code, "Traceback" in done.err) == (3, False), done.err
    return done


def test_a_turn_that_reaches_a_limit_says_so_everywhere(treadle: Treadle):
    model = scripted(treadle, ECHO, ECHO, {"text": "Done."})
    ended = limited(treadle, "exec", "--json", "look", "--model", model, "--max-steps", "1")
    reached, completed = ended.json_lines[-2:]
    limit = {"limit": "steps", "most": 1.0, "spent": 1.0}
    assert reached == {"type": "limit.reached", **limit}
    assert completed["status"] == "interrupted"
    assert completed["limit"] == {"type": "limit.reached", **limit}
    shown = treadle("show", "last").text
    assert "the limit of 1 step is reached; the turn ends here" in shown
    assert "seen" in shown


def test_settings_limit_turns_and_flags_come_after_them(treadle: Treadle):
    model = scripted(treadle, ECHO, ECHO, {"text": "Done."})
    (treadle.home / "config.toml").write_text(f"model = {json.dumps(model)}\n[limits]\nsteps = 1\n")
    ended = limited(treadle, "exec", "look")
    assert "treadle: the limit of 1 step is reached; the thread can be resumed\n" in ended.err
    assert ended.text == ""
    assert treadle("exec", "look", "--max-steps", "9", *FLAGS).text == "Done.\n"
    planned = treadle("plan", "go", "--json", "--max-time", "10m").json
    assert planned["limits"] == {"seconds": 600.0, "steps": 1}
    explained = treadle("config", "explain", "limits.steps", "--json").text
    assert "config.toml:3" in explained


def test_a_limit_in_money_needs_a_price_and_makes_no_thread_without(treadle: Treadle):
    model = scripted(treadle, ECHO, {"text": "Done."})
    name = model.partition(":")[2]
    refused = treadle.refused("exec", "look", "--model", model, "--max-cost", "0.01", code=2)
    assert "is not known; set it in the settings ([prices." in refused
    assert treadle("threads", "--json").json == []
    (treadle.home / "config.toml").write_text(
        f"[prices.{json.dumps(f'scripted:{name}')}]\ninput = 10.0\noutput = 10.0\n"
    )
    ended = limited(treadle, "exec", "look", "--json", "--model", model, "--max-cost", "0.01")
    cost = ended.json_lines[-1]["limit"]
    assert (cost["limit"], cost["currency"]) == ("cost", "USD")


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--max-cost", "0"), ("--max-steps", "-1"), ("--max-time", "10"), ("--max-tokens", "many")],
)
def test_a_limit_that_cannot_be_is_wrong_usage(treadle: Treadle, flag: str, value: str):
    told = treadle.refused("exec", "look", flag, value, code=2)
    assert flag in told
    assert len(told.strip().splitlines()) == 1


def test_a_chat_goes_on_after_a_limit(treadle: Treadle):
    treadle.environ["TREADLE_MODEL"] = scripted(treadle, ECHO, ECHO, {"text": "Done."})
    with window(treadle, "chat", *FLAGS, "--max-steps", "1", columns=200) as session:
        session.until("\n>")
        session.type("look\r")
        session.until("the limit of 1 step is reached; your next message goes on from here")
        session.type("\x04")
        assert session.end() == 0
    assert treadle("exec", "--last", "go on", *FLAGS).text == "Done.\n"
