from __future__ import annotations

import asyncio
import json
from typing import Any

from treadle.config import load_config
from treadle.policy.auth.auth_state import AuthState
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script, ScriptedError

from .scripts import scripted
from .terminal import Treadle

BROKEN = {"error": {"status": 400, "message": "out of order"}}


def configure(treadle: Treadle, **settings: Any) -> None:
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    (treadle.home / "config.toml").write_text("\n".join(lines) + "\n")


def test_the_configured_model_falls_back_and_a_chosen_one_does_not(treadle):
    bad = scripted(treadle, BROKEN, name="bad.jsonl")
    good = scripted(treadle, {"text": "I am the other."}, name="good.jsonl")
    configure(treadle, model=bad, fallbacks=[good])
    done = treadle("exec", "--json", "who?")
    (failed,) = [line for line in done.json_lines if line["type"] == "attempt.failed"]
    assert (failed["tried"]["model"], failed["next"]["model"]) == (bad, good)
    assert done.json_lines[-1]["text"] == "I am the other."
    assert "out of order" in treadle.refused("exec", "--model", bad, "who?")
    chosen = treadle("exec", "--model", bad, "--fallback", good, "who?")
    assert chosen.text == "I am the other.\n"
    assert f"! {bad}: " in chosen.err
    assert f"out of order; correct the request; asking {good}\n" in chosen.err


def test_a_chosen_model_falls_back_to_its_own_list(treadle):
    bad = scripted(treadle, BROKEN, name="bad.jsonl")
    good = scripted(treadle, {"text": "I am the other."}, name="good.jsonl")
    (treadle.home / "config.toml").write_text(
        f"fallbacks = [{json.dumps(bad)}]\n[models.{json.dumps(bad)}]\n"
        f"fallbacks = [{json.dumps(good)}]\n"
    )
    assert treadle("exec", "--model", bad, "who?").text == "I am the other.\n"
    strict = f"[models.{json.dumps(bad)}]\nfallbacks = []\n"
    (treadle.home / "config.toml").write_text(
        f"model = {json.dumps(bad)}\nfallbacks = [{json.dumps(good)}]\n{strict}"
    )
    assert "out of order" in treadle.refused("exec", "who?")


def test_a_variable_names_fallbacks_with_commas_between_them(tmp_path):
    environ = {"TREADLE_FALLBACKS": "openai:gpt-5.4,anthropic:claude-opus-4-5"}
    config = load_config(tmp_path, tmp_path, environ)
    assert config.settings.fallbacks == ("openai:gpt-5.4", "anthropic:claude-opus-4-5")


async def test_kept_profiles_pay_and_a_named_one_is_kept_to(treadle):
    refused = Answer(error=ScriptedError(status=401, message="who are you"))
    answers = (refused, Answer(text="first"), Answer(text="second"))

    async def run(*args: str, stdin: bytes = b"") -> Any:
        return await asyncio.to_thread(treadle, *args, stdin=stdin)

    async with FakeServer(Script(answers=answers)) as server:
        treadle.environ["OPENAI_BASE_URL"] = server.base_url
        for name in ("a", "b", "c"):
            given = f"sk-planted-{name}".encode()
            await run("auth", "add", "openai", "--name", name, stdin=given)
        assert (await run("exec", "hi")).text == "first\n"
        assert (await run("exec", "--last", "--profile", "openai:c", "hi")).text == "second\n"
        keys = [request.headers["authorization"] for request in server.requests]
    assert keys == [f"Bearer sk-planted-{name}" for name in "abc"]
    pin = (await run("auth", "pin", "last", "--json")).json
    assert (pin["profile"], pin["source"]) == ("openai:c", "user")
    await run("delete", "last", "--yes")
    state = AuthState(treadle.home)
    assert await asyncio.to_thread(state.pin, pin["thread"]) is None
