from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from treadle.tools.executor import ProcessSpec
from treadle.tools.pipe import PipeExecutor

from .scenes import Scene, marked_processes, model_text, until


@pytest.fixture
async def far(scene: Scene) -> AsyncIterator[PipeExecutor]:
    executor = await PipeExecutor.connect(env={**os.environ, "TREADLE_HOME": str(scene.home)})
    yield executor
    await executor.close()


@pytest.fixture
def remote(scene: Scene, far: PipeExecutor) -> Scene:
    return scene.but(executor=far)


def spec_of(scene: Scene, script: str) -> ProcessSpec:
    return ProcessSpec(argv=("sh", "-c", script), cwd=scene.cwd, bounds=scene.bounds)


async def test_the_tools_work_at_the_other_end(remote: Scene):
    patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch"
    assert (await remote.raw("apply_patch", patch)).success
    assert "hello" in await remote.text("exec_command", cmd="cat new.txt", login=False)
    await remote.call("exec_command", cmd="read x; echo got $x", tty=True, yield_time_ms=250)
    text = await remote.text("write_stdin", session_id=1, chars="it\n", yield_time_ms=30_000)
    assert "got it" in text


async def test_a_patch_that_leaves_the_roots_is_asked_about_here(remote: Scene):
    patch = "*** Begin Patch\n*** Add File: ../out.txt\n+x\n*** End Patch"
    result = await remote.raw("apply_patch", patch)
    assert model_text(result) == "patch rejected by user: nobody expected this"
    assert [ask.outside for ask in remote.host.asked] == [True]


async def test_a_start_that_is_given_up_ends_at_the_other_end(scene: Scene, far: PipeExecutor):
    await (await far.start(spec_of(scene, "true"))).wait()
    starting = asyncio.ensure_future(far.start(spec_of(scene, "sleep 67.5")))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert marked_processes("67.5") == []


async def test_everything_ends_there_when_the_connection_breaks(scene: Scene):
    command = ("sh", "-c", 'exec "$0" -m treadle.tools.pipe', sys.executable)
    far = await PipeExecutor.connect(command, env={**os.environ, "TREADLE_HOME": str(scene.home)})
    process = await far.start(spec_of(scene.in_mode("danger-full-access"), "sleep 68.5"))
    waiting = asyncio.ensure_future(process.wait())
    await until(lambda: bool(marked_processes("68.5")))
    await far.close()
    assert await waiting == 137
    assert marked_processes("68.5") == []
    with pytest.raises(ConnectionError, match="connect again"):
        await far.start(spec_of(scene, "true"))


async def test_a_far_end_that_dies_fails_every_call(scene: Scene, far: PipeExecutor):
    process = await far.start(spec_of(scene, "echo $PPID; sleep 69.5"))
    waiting = asyncio.ensure_future(process.wait())
    for pid in marked_processes("treadle.tools.pipe"):
        if str(os.getpid()) in Path(f"/proc/{pid}/stat").read_text().split():
            os.kill(pid, 9)
    with pytest.raises(ConnectionError, match="connect again"):
        await waiting
    await process.kill()
    await until(lambda: marked_processes("69.5") == [])


async def test_what_does_not_speak_our_language_is_an_error(scene: Scene):
    far = await PipeExecutor.connect(("sh", "-c", "echo Welcome to the machine; cat"))
    with pytest.raises(ConnectionError, match="sent no valid message"):
        await far.read(scene.cwd / "x", bounds=scene.bounds)
    await far.close()


@pytest.mark.parametrize(
    "message",
    [r"\0\0\0\2\241\377", r"\0\0\0\1\301", r"\0\0\0\5\335\377\377\377\377", r"\377\377\377\377"],
)
async def test_a_message_that_nobody_can_read_fails_every_call(scene: Scene, message: str):
    far = await PipeExecutor.connect(("sh", "-c", f"printf '{message}'; cat >/dev/null"))
    with pytest.raises(ConnectionError, match="sent no valid message"):
        await far.read(scene.cwd / "x", bounds=scene.bounds)
    await far.close()


async def test_a_far_end_that_hears_nonsense_gives_up(scene: Scene):
    helper = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "treadle.tools.pipe"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TREADLE_HOME": str(scene.home)},
    )
    out, _ = await helper.communicate(b"\0\0\0\3abc")
    assert (out, helper.returncode) == (b"", 0)


async def test_large_files_pass_whole(scene: Scene, far: PipeExecutor):
    data = os.urandom(1 << 20) * 5
    await far.write(scene.cwd / "large", data, bounds=scene.bounds)
    assert await far.read(scene.cwd / "large", bounds=scene.bounds) == data
