from __future__ import annotations

import asyncio
import time

import pytest

from treadle.core.loopback import LoopbackResponse
from treadle.delivery.channels.webhook import is_signed

from ..delivery.scenes import Receiver
from .scripts import scripted, shell
from .terminal import Treadle
from .test_chat import answers, talk
from .test_exec import USAGE
from .test_terminal import shown, without_colour

SECRET = "whsec-planted-0123456789"


def configured(treadle: Treadle, **tables: str) -> None:
    text = "".join(f"[channels.{name}]\n{said}\n" for name, said in tables.items())
    (treadle.home / "config.toml").write_text(text)


def hooked(treadle: Treadle, receiver: Receiver) -> None:
    treadle.environ["OPS_SECRET"] = SECRET
    configured(
        treadle,
        ops=f'kind = "webhook"\nurl = "{receiver.url}"\n'
        'secret_variable = "OPS_SECRET"\nprivate = true',
    )


async def test_a_reply_is_posted_to_the_chosen_webhook_signed_and_once(treadle):
    async with Receiver() as receiver:
        hooked(treadle, receiver)
        model = scripted(treadle, {"text": "Done."})
        done = await asyncio.to_thread(treadle, "exec", "go", "--model", model, "--channel", "ops")
        unasked = await asyncio.to_thread(treadle, "exec", "go", "--last")
        (request,) = receiver.requests
        (body,) = receiver.once.values()
    assert (done.text, unasked.text) == ("Done.\n", "Done.\n")
    assert (body["text"], body["turn"], body["kind"]) == ("Done.", 1, "final")
    assert is_signed(SECRET, request.headers, request.body, now=time.time())
    everything = done.text + done.err + (treadle.home / "log.db").read_bytes().decode("latin-1")
    assert SECRET not in everything


async def test_a_webhook_that_is_down_costs_the_turn_nothing(treadle):
    async with Receiver() as receiver:
        hooked(treadle, receiver)
        receiver.script = lambda _: LoopbackResponse(status=503)
        treadle.environ["TREADLE_CHANNEL"] = "ops"
        model = scripted(treadle, {"text": "One."})
        done = await asyncio.to_thread(treadle, "exec", "go", "--model", model)
        assert done.text == "One.\n"
        assert receiver.requests != []


def test_a_terminal_channel_writes_the_answer_once(treadle):
    configured(treadle, here='kind = "terminal"')
    model = scripted(treadle, {"text": "Done."})
    done = treadle("exec", "go", "--model", model, "--channel", "here")
    assert done.text == "Done.\n"
    events = treadle("exec", "go", "--last", "--channel", "here", "--json")
    assert events.json_lines[-1]["text"] == "Done."
    assert events.err == "Done.\n"
    assert shown(treadle, "exec", "go", "--last", "--channel", "here").count("Done.") == 1


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({}, "there is no channel 'ops' (configured: none); add [channels.ops]"),
        (
            {"opps": 'kind = "terminal"'},
            "there is no channel 'ops'; did you mean 'opps'? (configured: opps); add",
        ),
        ({"ops": 'kind = "webhook"'}, "the webhook channels.ops has no `url`; add it"),
        (
            {"ops": 'kind = "webhook"\nurl = "https://example.com/h"'},
            "the webhook channels.ops has no `secret_variable`; name the variable",
        ),
        (
            {"ops": 'kind = "webhook"\nurl = "https://example.com/h"\nsecret_variable = "NONE"'},
            "the variable 'NONE' of channels.ops is empty; set it",
        ),
        (
            {"ops": 'kind = "webhook"\nurl = "http://example.com/h"\nsecret_variable = "HOME"'},
            "the webhook at 'http://example.com' would send replies without encryption",
        ),
        ({"ops": 'url = "https://example.com"'}, "channels.ops is not complete:"),
        ({"ops": 'kind = "pigeon"'}, "'channels.ops.kind' is 'pigeon'; accepted: 'webhook', "),
    ],
)
def test_a_channel_that_cannot_be_used_says_what_to_do(treadle, tables, said):
    configured(treadle, **tables)
    refusal = treadle.refused("exec", "go", "--channel", "ops", "--model", scripted(treadle))
    assert said in refusal
    assert treadle("threads", "--json").json == []


def test_the_path_of_a_webhook_is_not_told(treadle):
    configured(treadle, ops='kind = "webhook"\nurl = "https://example.com/let-me-in"')
    told = treadle("config", "explain", "channels.ops.url").text
    assert "https://example.com/…" in told
    assert "let-me-in" not in told + treadle("config", "--json").text


@pytest.mark.parametrize(
    "silence", ["NO_REPLY", "no_reply", '{"action": "NO_REPLY"}', "**NO_REPLY**", '"NO_REPLY"']
)
def test_a_silent_answer_is_not_shown_but_its_events_are(treadle, silence):
    model = scripted(treadle, {"text": silence})
    done = treadle("exec", "go", "--model", model)
    assert (done.code, done.text) == (0, "")
    assert treadle("exec", "go", "--last", "--json").json_lines[-1]["text"] == silence
    kept = treadle.home.parent / "answer.txt"
    assert treadle("exec", "go", "--last", "-o", str(kept)).text == ""
    assert kept.read_text() == silence


def test_a_silent_word_before_a_call_is_not_shown(treadle):
    model = scripted(
        treadle, {"text": "NO_REPLY", "calls": [shell("echo hi")]}, {"text": "NO_REPLY is a word."}
    )
    done = treadle("exec", "go", "--model", model)
    assert done.text == "NO_REPLY is a word.\n"
    assert done.err.splitlines()[1] == "• echo hi"


def test_a_terminal_sees_nothing_of_a_silent_answer_and_all_of_others(treadle):
    calls = {"text": "NO_REPLY", "calls": [shell("echo hi")]}
    model = scripted(treadle, calls, {"text": "NO_REPLY"})
    silent = without_colour(shown(treadle, "exec", "go", "--model", model))
    assert "echo hi" in silent
    assert "NO_" not in silent
    for text in ("NO reply needed.", "No"):
        spoken = shown(treadle, "exec", "go", "--model", scripted(treadle, {"text": text}))
        assert text in without_colour(spoken).splitlines()


def test_a_conversation_shows_nothing_of_a_silent_answer(treadle):
    answers(treadle, {"text": "NO_REPLY", "usage": USAGE}, {"text": "Not now.", "usage": USAGE})
    with talk(treadle) as person:
        person.say("hello")
        assert "NO_" not in person.expect("context 0% of")
        person.say("again")
        person.expect("Not now.")
        person.leave()
