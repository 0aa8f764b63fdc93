from __future__ import annotations

import asyncio
import time

import pytest

from weft.delivery.channels.signature import is_signed
from weft.loopback import Answer

from ..delivery.scenes import Receiver
from .scripts import scripted, shell
from .terminal import Weft
from .test_chat import answers, talk
from .test_exec import USAGE
from .test_terminal import shown, without_colour

SECRET = "whsec-planted-0123456789"


def configured(weft: Weft, **tables: str) -> None:
    text = "".join(f"[channels.{name}]\n{said}\n" for name, said in tables.items())
    (weft.home / "config.toml").write_text(text)


def hooked(weft: Weft, receiver: Receiver) -> None:
    weft.environ["OPS_SECRET"] = SECRET
    configured(
        weft,
        ops=f'kind = "webhook"\nurl = "{receiver.url}"\n'
        'secret_variable = "OPS_SECRET"\nprivate = true',
    )


async def test_a_reply_is_posted_to_the_chosen_webhook_signed_and_once(weft):
    async with Receiver() as receiver:
        hooked(weft, receiver)
        model = scripted(weft, {"text": "Done."})
        done = await asyncio.to_thread(weft, "exec", "go", "--model", model, "--channel", "ops")
        unasked = await asyncio.to_thread(weft, "exec", "go", "--last")
        (request,) = receiver.requests
        (body,) = receiver.once.values()
    assert (done.text, unasked.text) == ("Done.\n", "Done.\n")
    assert (body["text"], body["turn"], body["kind"]) == ("Done.", 1, "final")
    assert is_signed(SECRET, request.headers, request.body, now=time.time())
    everything = done.text + done.err + (weft.home / "log.db").read_bytes().decode("latin-1")
    assert SECRET not in everything


async def test_a_webhook_that_is_down_costs_the_turn_nothing(weft):
    async with Receiver() as receiver:
        hooked(weft, receiver)
        receiver.script = lambda _: Answer(status=503)
        weft.environ["WEFT_CHANNEL"] = "ops"
        model = scripted(weft, {"text": "One."})
        done = await asyncio.to_thread(weft, "exec", "go", "--model", model)
        assert done.text == "One.\n"
        assert receiver.requests != []


def test_a_terminal_channel_writes_the_answer_once(weft):
    configured(weft, here='kind = "terminal"')
    model = scripted(weft, {"text": "Done."})
    done = weft("exec", "go", "--model", model, "--channel", "here")
    assert done.text == "Done.\n"
    events = weft("exec", "go", "--last", "--channel", "here", "--json")
    assert events.json_lines[-1]["text"] == "Done."
    assert events.err == "Done.\n"
    assert shown(weft, "exec", "go", "--last", "--channel", "here").count("Done.") == 1


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
            "the variable 'NONE', which channels.ops names, is empty",
        ),
        (
            {"ops": 'kind = "webhook"\nurl = "http://example.com/h"\nsecret_variable = "HOME"'},
            "the webhook at 'http://example.com' would send replies in the clear",
        ),
        ({"ops": 'url = "https://example.com"'}, "channels.ops is not complete:"),
        ({"ops": 'kind = "pigeon"'}, "'channels.ops.kind' is 'pigeon'; accepted: 'webhook', "),
    ],
)
def test_a_channel_that_cannot_be_used_says_what_to_do(weft, tables, said):
    configured(weft, **tables)
    refusal = weft.refused("exec", "go", "--channel", "ops", "--model", scripted(weft))
    assert said in refusal
    assert weft("threads", "--json").json == []


def test_the_path_of_a_webhook_is_not_told(weft):
    configured(weft, ops='kind = "webhook"\nurl = "https://example.com/let-me-in"')
    told = weft("config", "explain", "channels.ops.url").text
    assert "https://example.com/…" in told
    assert "let-me-in" not in told + weft("config", "--json").text


@pytest.mark.parametrize(
    "silence", ["NO_REPLY", "no_reply", '{"action": "NO_REPLY"}', "**NO_REPLY**", '"NO_REPLY"']
)
def test_a_silent_answer_is_not_shown_but_its_events_are(weft, silence):
    model = scripted(weft, {"text": silence})
    done = weft("exec", "go", "--model", model)
    assert (done.code, done.text) == (0, "")
    assert weft("exec", "go", "--last", "--json").json_lines[-1]["text"] == silence
    kept = weft.home.parent / "answer.txt"
    assert weft("exec", "go", "--last", "-o", str(kept)).text == ""
    assert kept.read_text() == silence


def test_a_silent_word_before_a_call_is_not_shown(weft):
    model = scripted(
        weft, {"text": "NO_REPLY", "calls": [shell("echo hi")]}, {"text": "NO_REPLY is a word."}
    )
    done = weft("exec", "go", "--model", model)
    assert done.text == "NO_REPLY is a word.\n"
    assert done.err.splitlines()[1] == "• echo hi"


def test_a_terminal_sees_nothing_of_a_silent_answer_and_all_of_others(weft):
    calls = {"text": "NO_REPLY", "calls": [shell("echo hi")]}
    model = scripted(weft, calls, {"text": "NO_REPLY"})
    silent = without_colour(shown(weft, "exec", "go", "--model", model))
    assert "echo hi" in silent
    assert "NO_" not in silent
    for text in ("NO reply needed.", "No"):
        spoken = shown(weft, "exec", "go", "--model", scripted(weft, {"text": text}))
        assert text in without_colour(spoken).splitlines()


def test_a_conversation_shows_nothing_of_a_silent_answer(weft):
    answers(weft, {"text": "NO_REPLY", "usage": USAGE}, {"text": "Not now.", "usage": USAGE})
    with talk(weft) as person:
        person.say("hello")
        assert "NO_" not in person.expect("context 0% of")
        person.say("again")
        person.expect("Not now.")
        person.leave()
