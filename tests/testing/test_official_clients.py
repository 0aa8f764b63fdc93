from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Call, Script, ScriptedError, Tokens

DRIVER = Path(__file__).with_name("official_clients.py")
CALLS = (
    Call(name="run", arguments={"cmd": "make test"}, id="call_a"),
    Call(name="run", arguments={"cmd": "ls -l"}, id="call_b"),
)
SCRIPT = Script(
    answers=(
        Answer(
            when="say",
            reasoning="Hm, well.",
            text="Hello, world.",
            usage=Tokens(input=50, output=9),
            times=0,
        ),
        Answer(when="call", calls=CALLS, text="Running both.", times=0),
        Answer(when="length", text="As far as it", stop="length", times=0),
        Answer(
            when="limit",
            error=ScriptedError(status=429, code="rate_limit_exceeded", message="slow down"),
            times=0,
        ),
        Answer(
            when="break",
            text="half",
            error=ScriptedError(code="server_error", message="it broke"),
            times=0,
        ),
    )
)
WAYS = [f"{api} {how}" for api in ("responses", "chat", "messages") for how in ("stream", "whole")]


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What the official clients made of a script; a program of its own imports them."""
    return asyncio.run(drive())


async def drive() -> dict[str, Any]:
    async with FakeServer(SCRIPT) as server:
        url = server.base_url.removesuffix("/v1")
        child = await asyncio.create_subprocess_exec(
            sys.executable, str(DRIVER), url, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await child.communicate()
    assert child.returncode == 0
    found: dict[str, Any] = json.loads(said)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_official_clients_read_texts_reasoning_and_usage(told, way):
    answer = told[way]["say"]
    assert (answer["text"], answer["reasoning"]) == ("Hello, world.", "Hm, well.")
    assert answer["usage"] == [50, 9]
    assert answer["end"] in ("completed", "stop", "end_turn")
    assert answer["calls"] == []
    assert (answer["kinds"] > 2) is way.endswith("stream")


@pytest.mark.parametrize("way", WAYS)
def test_official_clients_read_calls(told, way):
    answer = told[way]["call"]
    assert answer["calls"] == [
        ["run", {"cmd": "make test"}, "call_a"],
        ["run", {"cmd": "ls -l"}, "call_b"],
    ]
    assert answer["text"] == "Running both."
    assert answer["end"] in ("completed", "tool_calls", "tool_use")


@pytest.mark.parametrize("way", WAYS)
def test_official_clients_raise_their_own_errors(told, way):
    kind, status, message = told[way]["limit"]
    assert (kind, status) == ("RateLimitError", 429)
    assert "slow down" in message


@pytest.mark.parametrize("way", [way for way in WAYS if "whole" in way])
def test_official_clients_see_that_an_answer_ended_early_or_broke(told, way):
    assert told[way]["length"]["text"] == "As far as it"
    assert told[way]["length"]["end"] in ("incomplete", "length", "max_tokens")
    assert "it broke" in told[way]["break"][2]


def test_plain_streams_of_official_clients_end_as_the_script_says(told):
    assert told["ends"] == {
        "length": {"responses": ["response.incomplete", ""], "chat": ["length", ""]},
        "break": {"responses": ["response.failed", "it broke"], "chat": ["error", "it broke"]},
    }
    assert "it broke" in told["messages stream"]["break"][2]


def test_official_clients_list_models_and_count_tokens(told):
    assert told["models"] == told["their models"] == ["scripted"]
    assert told["tokens"] > 100
