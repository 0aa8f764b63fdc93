from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.engines.scenes import Probe, notices
from tests.harness.scenes import log, unpaired_calls
from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.events import Retrying, TextDelta
from treadle.models.retry import Backoff
from treadle.prompt.announcements import Unanswered
from treadle.testing.appserver import AppFault, AppScript
from treadle.testing.script import Answer, Break, Call, ScriptedError

from .scenes import hear, last, of, open_stage, request_items, roles_and_texts, use_scripted_server
from .view_items import recalling

KEY = "sk-planted"

FAILURES = {
    "key refused": (Answer(error=ScriptedError(status=401, message=f"bad key {KEY}")), "401"),
    "too many": (Answer(error=ScriptedError(status=429, message="slow down")), "429"),
    "bad request": (
        Answer(error=ScriptedError(status=400, message="no such thing")),
        "no such thing",
    ),
    "server error": (Answer(error=ScriptedError(status=500, message="boom")), "high demand"),
    "cut": (Answer(text="one two three", cut=Break(events=3)), "disconnected"),
    "incomplete": (Answer(text="one two", stop="length"), "max_output_tokens"),
    "failed": (Answer(error=ScriptedError(code="server_error", message="nope")), "nope"),
}


@pytest.mark.parametrize(("answer", "words"), FAILURES.values(), ids=FAILURES)
async def test_a_failure_ends_the_turn_with_its_cause_and_the_thread_goes_on(
    tmp_path, answer, words, caplog
):
    caplog.set_level(logging.DEBUG)
    async with open_stage(tmp_path, answer, Answer(text="fine")) as stage, stage.thread() as thread:
        events = await hear(thread, "hi")
        end = last(events)
        assert (end.status, (await thread.store.turn(thread.id, 1)).state) == ("failed", "failed")
        assert words in (end.error or "")
        assert not thread.view.open_calls
        again = await hear(thread, "again")
        assert last(again).text == "fine"
        said = roles_and_texts(request_items(stage.requests[-1]))
        spoken = "assistant" in {who for who, _ in said}
        note = [] if spoken else [Unanswered().render()]
        assert [text for who, text in said if who == "user"] == ["hi", *note, "again"]
        lines = [f"{who}: {text}" for who, text in said if text not in note]
        assert [*lines, "assistant: fine"] == await log(thread)
        told = "".join(map(repr, [*events, *again]))
        assert KEY not in told
        assert KEY not in caplog.text
    for name in ("log.db", "log.db-wal", "index.db", "index.db-wal"):
        assert KEY.encode() not in _bytes(tmp_path / "treadle" / name)


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


async def test_tries_of_codex_are_told_and_the_turn_goes_on(tmp_path):
    cut = Answer(text="one two three", cut=Break(events=3))
    async with (
        open_stage(tmp_path, cut, Answer(text="fine"), retries=2) as stage,
        stage.thread() as thread,
    ):
        events = await hear(thread, "hi")
        assert last(events).text == "fine"
        (tried,) = of(events, Retrying)
        assert (tried.attempt, tried.most) == (1, 2)
        assert "disconnected" in tried.reason
        assert await log(thread) == ["user: hi", "assistant: fine"]
        assert of(events, TextDelta)[-1].text == "fine"


async def test_a_provider_that_is_not_there_fails_the_turn(tmp_path):
    nowhere = "http://127.0.0.1:9/v1"
    async with open_stage(tmp_path, base_url=nowhere) as stage, stage.thread() as thread:
        events = await hear(thread, "hi")
        assert last(events).status == "failed"
        assert last(events).error == (
            "the provider 'openai' cannot be reached: Connection failed: error sending request; "
            "check the network and the provider's address"
        )
        assert not thread.view.open_calls


async def test_a_provider_of_this_machine_that_is_not_there_is_asked_once(tmp_path):
    nowhere = "http://127.0.0.1:9/v1"
    async with (
        open_stage(tmp_path, base_url=nowhere, retries=5) as stage,
        stage.thread() as thread,
    ):
        events = await hear(thread, "hi")
        assert len(of(events, Retrying)) == 1
        assert (last(events).status, last(events).error) == (
            "failed",
            "http://127.0.0.1:9: no server listens on '127.0.0.1'; start it, or check the port",
        )
        assert not thread.view.open_calls


async def test_a_lasting_failure_is_asked_for_as_often_as_the_settings_say_and_not_more(tmp_path):
    busy = Answer(error=ScriptedError(status=503, message="busy"), times=0)
    async with open_stage(tmp_path, busy, retries=2) as stage, stage.thread() as thread:
        events = await hear(thread, "hi")
        assert last(events).status == "failed"
        assert [tried.attempt for tried in of(events, Retrying)] == [1, 2]
        assert len(stage.requests) == 3


UNPAID = {
    "credit": ScriptedError(status=400, message="Your credit balance is too low"),
    "forbidden": ScriptedError(status=403, message="You are out of credits"),
    "payment": ScriptedError(status=402, message="Pay first"),
    "quota": ScriptedError(status=429, code="insufficient_quota", message="No more for you"),
}


@pytest.mark.parametrize("error", UNPAID.values(), ids=UNPAID)
async def test_an_account_that_cannot_pay_is_told_as_such(tmp_path, error):
    async with open_stage(tmp_path, Answer(error=error)) as stage, stage.thread() as thread:
        told = last(await hear(thread, "hi")).error or ""
    assert told.startswith("the account cannot pay for the request: ")
    assert "treadle auth add" in told
    assert len(stage.requests) == 1


async def test_a_limit_that_does_not_say_when_it_ends_is_waited_for_on_codex(tmp_path):
    busy = Answer(error=ScriptedError(status=429, message="slow down"), times=2)
    async with open_stage(tmp_path, busy, retries=3) as stage, stage.thread() as thread:
        stage.harness.backoff = Backoff(base=0.001)
        events = await hear(thread, "hi")
        assert (last(events).status, last(events).text) == ("completed", "fine")
        assert [(each.attempt, each.most) for each in of(events, Retrying)] == [(1, 3), (2, 3)]
        assert all(each.delay > 0 for each in of(events, Retrying))
        assert await log(thread) == ["user: hi", "assistant: fine"]
        said = [roles_and_texts(request_items(request)) for request in stage.requests]
        assert said == [[("user", "hi")]] * 3


async def test_a_codex_that_is_not_there_is_named(tmp_path):
    options = CodexOptions(binary=tmp_path / "codex")
    async with open_stage(tmp_path, options=options) as stage, stage.thread() as thread:
        ended = last(await hear(thread, "hi"))
        assert (ended.status, ended.error) == (
            "failed",
            (
                f"cannot run {str(tmp_path / 'codex')!r}: No such file or directory; "
                "install Codex, or name another binary"
            ),
        )


@pytest.mark.parametrize("method", ["thread/start", "thread/inject_items", "turn/start"])
async def test_every_request_has_as_long_as_the_options_say(tmp_path, method):
    options = CodexOptions(request_timeout=0.2)
    silent = AppFault(method=method, kind="silence", nth=1)
    async with open_stage(tmp_path, options=options) as stage:
        await use_scripted_server(stage, AppScript(faults=(silent,)))
        async with stage.thread(engine=Probe(assemble=recalling("You like tea."))) as thread:
            events = await hear(thread, "One.")
            said = notices(events)
            told = " ".join([last(events).error or "", *said])
            assert f"did not answer {method!r} within 0.2 s" in told
            assert last(await hear(thread, "Two.")).text == "Done."


async def test_what_was_done_before_a_failure_stays_in_the_log(tmp_path):
    command = Call(name="exec_command", arguments={"cmd": "touch made", "login": False})
    boom = Answer(error=ScriptedError(status=400, message="boom"))
    async with (
        open_stage(tmp_path, Answer(calls=(command,)), boom) as stage,
        stage.thread() as thread,
    ):
        events = await hear(thread, "go")
        assert last(events).status == "failed"
        lines = await log(thread)
        assert lines[:2] == ["user: go", "call exec_command"]
        assert lines[2].startswith("output ")
        assert await unpaired_calls(thread) == []
        await hear(thread, "on")
        kinds = [who for who, _ in roles_and_texts(request_items(stage.requests[-1]))]
        assert kinds == ["user", "function_call", "function_call_output", "user"]
        assert (tmp_path / "project/made").exists()
