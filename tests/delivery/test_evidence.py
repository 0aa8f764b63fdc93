"""What tools have sent is known to whoever goes on with their turn, also after a kill."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from treadle import Thread
from treadle.delivery.channels.queue import QueueChannel
from treadle.delivery.outbox import EVIDENCE
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer

CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from treadle import Thread
from treadle.delivery.channels.queue import QueueChannel
from treadle.delivery.reply_sender import HOST
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer, Call
from treadle.tools.contract import Media, Recipient, SentMessage, ToolResult
from treadle.tools.decorator import tool


@tool(description="Sends a message.")
async def message(text: str) -> ToolResult:
    return ToolResult(
        "sent",
        sent=(SentMessage(target=Recipient(channel=HOST, to=""), text=text),),
        media=(Media(url="chart.png"),),
    )


@tool(description="Dies.")
async def die() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


async def main():
    model = ScriptedModel([
        Answer(calls=(Call(name="message", arguments={"text": "It is done."}),)),
        Answer(calls=(Call(name="die"),)),
    ])
    async with Thread.open(
        model=model, home=Path(sys.argv[1]), tools=[message, die], channel=QueueChannel()
    ) as thread:
        print(thread.id, flush=True)
        async for _ in thread.run("go", turn_id="turn_1"):
            pass

asyncio.run(main())
"""


@pytest.fixture
def killed(tmp_path: Path) -> str:
    """The thread of a process that died in its turn."""
    died = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True, check=False
    )
    assert died.returncode == -signal.SIGKILL
    return died.stdout.strip()


async def test_what_a_tool_has_sent_is_not_sent_again_after_a_kill(tmp_path: Path, killed: str):
    model, queue = ScriptedModel([Answer(text="It is done.")]), QueueChannel()
    async with Thread.open(killed, model=model, home=tmp_path, tools=[], channel=queue) as thread:
        assert await thread.store.outbox(thread=thread.id, topic=EVIDENCE) != []
        async for _ in thread.run(turn_id="turn_1"):
            pass
        assert await thread.store.outbox(thread=thread.id, topic=EVIDENCE) == []
        assert queue.waiting == 1
        async for delivery in queue:
            assert (delivery.reply.text, delivery.reply.media) == ("", ("chart.png",))
            break
    await model.close()
