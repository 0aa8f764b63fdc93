from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.harness.scenes import call, hear, last, of, open_thread, processes, scripted
from treadle.core.errors import HookFailed
from treadle.harness.events import ToolFinished
from treadle.hooks import CommandHook, Hooks
from treadle.hooks.hooks import _CLEANUP_SECONDS
from treadle.hooks.payloads import BeforeToolCall, HookAnswer, OnTurnStart
from treadle.testing.script import Answer
from treadle.tools.decorator import tool

PAYLOAD = OnTurnStart(thread="thr_1", turn="turn_1", model="m")


def shell(script: str, timeout: float = 10.0) -> CommandHook:
    return CommandHook(("/bin/sh", "-c", script), timeout=timeout)


async def test_the_event_is_read_as_json_and_the_answer_written_as_json():
    program = (
        "import json, sys; event = json.load(sys.stdin); "
        "print(json.dumps({'context': event['event'] + ' ' + event['turn']}))"
    )
    hook = CommandHook((sys.executable, "-c", program))
    assert await hook(PAYLOAD) == HookAnswer(context="turn_start turn_1")


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ("exit 0", None),
        ("cat >/dev/null; echo", None),
        ("echo too late >&2; exit 2", HookAnswer(block="too late")),
        ("exit 2", HookAnswer(block="hook '/bin/sh' said no")),
        ('echo \'{"output":"changed"}\'', HookAnswer(output="changed")),
    ],
)
async def test_what_a_command_says_is_what_it_means(script, answer):
    assert await shell(script)(PAYLOAD) == answer


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo broken >&2; exit 1", "ended with code 1: broken"),
        ("kill -9 $$", "ended with code -9"),
        ("echo not json", "answered what is no hook answer"),
        ("echo '[1]'", "answered what is no hook answer"),
        ("echo '{\"block\": 7}'", "answered what is no hook answer"),
        ("head -c 3000000 /dev/zero", "wrote more than 1048576 bytes"),
        ("python3 -c 'print(\"[\" * 100000)'", "answered what is no hook answer"),
        ("printf '\\377'", "answered what is no hook answer"),
    ],
)
async def test_a_command_that_talks_nonsense_has_failed(script, reason):
    with pytest.raises(HookFailed, match=reason):
        await shell(script)(PAYLOAD)


async def test_a_command_that_is_not_there_has_failed(tmp_path: Path):
    with pytest.raises(HookFailed, match="cannot be started: No such file"):
        await CommandHook((str(tmp_path / "nothing"),))(PAYLOAD)


async def test_a_command_that_hangs_is_gone_with_its_whole_group():
    hook = shell("sleep 876543 & sleep 876542", timeout=0.2)
    with pytest.raises(HookFailed, match=r"did not answer within 0\.2 s"):
        await hook(PAYLOAD)
    assert processes("87654") == []


async def test_a_command_that_writes_without_end_is_gone_and_nothing_waits_for_its_pipe():
    with pytest.raises(HookFailed, match=r"did not answer within 0\.2 s"):
        # The hooks of a thread wait so long for one that is cancelled.
        async with asyncio.timeout(_CLEANUP_SECONDS):
            await shell("exec yes 654321", timeout=0.2)(PAYLOAD)
    assert processes("654321") == []


async def test_what_a_command_leaves_running_is_ended():
    assert await shell("sleep 765432 >/dev/null 2>&1 </dev/null &")(PAYLOAD) is None
    assert processes("765432") == []


async def test_a_command_can_change_and_block_calls_of_a_turn(tmp_path):
    @tool
    async def echo(text: str, times: int = 1) -> str:
        """HookAnswer it again."""
        return text * times

    hooks = Hooks()
    hooks.on(BeforeToolCall, shell("""echo '{"parameters":{"times":2}}'"""))
    hooks.on(BeforeToolCall, shell("grep -q forbidden && { echo no >&2; exit 2; }; exit 0"))
    model = scripted(
        Answer(calls=(call("echo", text="forbidden"), call("echo", text="fine"))),
        Answer(text="ok"),
    )
    async with open_thread(tmp_path, model, tools=(echo,), hooks=hooks) as thread:
        events = await hear(thread, "go")
    assert [e.output for e in of(events, ToolFinished)] == ["no", "finefine"]
    assert last(events).status == "completed"
