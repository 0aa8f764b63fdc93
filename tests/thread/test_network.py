"""A thread whose commands reach a list of hosts: what the model and the user are told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness.scenes import call, hear, of, open_thread, scripted
from tests.sandbox.networked import TableNetwork
from tests.tools.far_ends import far_environ
from treadle.core.errors import ConfigError
from treadle.harness.events import Event, ItemCompleted, NoticeRaised
from treadle.testing.script import Answer
from treadle.tools.executor import ToolExecutor
from treadle.tools.local import LocalExecutor
from treadle.tools.pipe import PipeExecutor

ASK = """\
exec 3<>/dev/tcp/127.0.0.1/61080
printf 'CONNECT evil.net:443 HTTP/1.1\\r\\n\\r\\n' >&3
cat <&3
"""


def outputs(events: Sequence[Event]) -> list[str]:
    items = [json.loads(bytes(event.item)) for event in of(events, ItemCompleted)]
    return [item["output"] for item in items if item["type"] == "function_call_output"]


@pytest.mark.parametrize("far", [False, True])
async def test_a_refusal_is_told_to_the_model_and_shown_to_the_user(tmp_path: Path, far: bool):
    home = tmp_path / "home"
    home.mkdir()
    executor: ToolExecutor
    if far:
        executor = await PipeExecutor.connect(env=far_environ(home))
    else:
        executor = LocalExecutor(home=home, network=TableNetwork(1))
    model = scripted(Answer(calls=(call("exec_command", cmd=ASK),)), Answer(text="done"))
    try:
        async with open_thread(
            tmp_path,
            model,
            tools=None,
            sandbox="read-only",
            network=["docs.example.org"],
            executor=executor,
        ) as thread:
            events = await hear(thread, "go")
    finally:
        await executor.close()
    why = "evil.net:443 is not among the hosts that commands may reach"
    (output,) = outputs(events)
    assert f"[network refused: {why}]" in output
    assert [event.text for event in of(events, NoticeRaised)] == [
        f"a command's network was refused: {why}"
    ]


@pytest.mark.parametrize("wrong", [["*"], ["localhost"], ["https://docs.example.org"], ["a b.c"]])
async def test_what_is_no_host_is_refused_when_the_thread_is_opened(
    tmp_path: Path, wrong: list[str]
):
    with pytest.raises(ConfigError, match="is no host that commands could reach"):
        async with open_thread(tmp_path, scripted(Answer(text="hi")), network=wrong):
            pass
