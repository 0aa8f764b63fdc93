"""Commands that only look at a home know its keys, too."""

from __future__ import annotations

import asyncio
import json

from treadle.core.redact import BLANK, forget_secrets
from treadle.policy.auth import ApiKey, CredentialStore
from treadle.testing.thread_keywords import open_keywords
from treadle.thread.thread import Thread

from .conftest import answer
from .scripts import scripted
from .terminal import Treadle
from .test_transfer import chat

KEY, STORED = "sk-PLANTED-0123456789abcdefghij", "quince-api-4471-xz-0123"


def keys_in_home(treadle: Treadle) -> list[str]:
    files = [each for each in treadle.home.rglob("*") if each.is_file()]
    return [
        each.name
        for each in files
        if each.name != "auth.json" and any(key in each.read_bytes() for key in (b"sk-PL", b"quin"))
    ]


async def write_before_anything_is_known(treadle: Treadle) -> None:
    given = open_keywords(model="openai:gpt-5.5", home=treadle.home, environ={})
    async with Thread.open(cwd=treadle.project, **given) as thread:
        await thread.log.turns.admit(f"mine are {KEY} and {STORED}")
        await thread.log.requests.record(thread.request())
        await thread.log.requests.record_answer([answer(f"so {KEY}, {STORED}")])
        await thread.log.turns.finish()


def test_an_old_log_is_exported_without_keys(treadle):
    forget_secrets()
    asyncio.run(write_before_anything_is_known(treadle))
    assert keys_in_home(treadle), "nothing was known"
    CredentialStore(treadle.home, environ={}, keyring=None).secrets.put(
        "openai:default", ApiKey(provider="openai", key=STORED)
    )
    treadle.environ["MINE_API_KEY"] = KEY
    for form in ("jsonl", "codex", "markdown"):
        text = treadle("export", "last", "--format", form, "--all").text
        assert KEY not in text
        assert STORED not in text
        assert f"so {BLANK}, {BLANK}" in text


def test_no_command_writes_a_key_into_the_log(treadle):
    treadle.environ["OPENAI_API_KEY"] = KEY
    treadle("new", "--title", f"about {KEY}")
    treadle("send", "last", f"look at {KEY}")
    treadle("fork", "last", "--title", f"fork of {KEY}")
    treadle("import", str(chat(treadle, f"old {KEY}", "fine")))
    assert keys_in_home(treadle) == []


def test_no_answer_shows_a_key(treadle):
    treadle.environ["OPENAI_API_KEY"] = KEY
    model = scripted(treadle, {"text": f"it is {KEY}"}, {"text": f"it is {KEY}"})
    shown = treadle("exec", "--model", model, "--output", "reply.txt", f"say {KEY}")
    assert KEY not in shown.text + shown.err
    assert (treadle.project / "reply.txt").read_text().strip() == f"it is {BLANK}"
    lines = treadle("exec", "--model", model, "--json", f"say {KEY}")
    assert json.loads(lines.lines[-1])
    assert KEY not in lines.text + lines.err
    assert keys_in_home(treadle) == []
