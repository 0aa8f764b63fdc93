from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from treadle.tools.executor import ProcessSpec
from treadle.tools.pipe import ConnectionLost, PipeExecutor
from treadle.tools.pipe.archive import far_archive
from treadle.tools.pipe.delivery import far_command

from .far_ends import far_environ
from .scenes import Scene, marked_processes, model_text, nap, until


@pytest.fixture
async def far(scene: Scene) -> AsyncIterator[PipeExecutor]:
    executor = await PipeExecutor.connect(env=far_environ(scene.home))
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
    starting = asyncio.ensure_future(far.start(spec_of(scene, f"sleep {nap(67)}")))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert marked_processes(nap(67)) == []


async def test_everything_ends_there_when_the_connection_breaks(scene: Scene):
    far = await PipeExecutor.connect(("env",), env=far_environ(scene.home))
    process = await far.start(spec_of(scene.in_mode("danger-full-access"), f"sleep {nap(68)}"))
    waiting = asyncio.ensure_future(process.wait())
    await until(lambda: bool(marked_processes(nap(68))))
    await far.close()
    assert await waiting == 137
    assert marked_processes(nap(68)) == []
    with pytest.raises(ConnectionLost, match="the connection to env was lost"):
        await far.start(spec_of(scene, "true"))


async def test_a_far_end_that_dies_fails_every_call(scene: Scene, far: PipeExecutor):
    process = await far.start(spec_of(scene, f"sleep {nap(69)}"))
    waiting = asyncio.ensure_future(process.wait())
    os.kill(far.hello.pid, 9)
    with pytest.raises(ConnectionLost, match="the outcome of what was running there is unknown"):
        await waiting
    await process.kill()
    await until(lambda: marked_processes(nap(69)) == [])


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo Welcome to the machine", "Welcome to the machine"),
        ("echo Permission denied >&2; exit 255", "Permission denied"),
        ("exit 3", "its command ended with exit code 3"),
        ("printf '\\0treadle far end\\n\\377\\377\\377\\377'; cat >/dev/null", "is no message"),
        ("printf '\\0treadle far end\\n\\0\\0\\0\\2{}'; cat >/dev/null", "missing required field"),
        ("yes | head -c 100000; cat >/dev/null", "y y y"),
    ],
)
async def test_a_command_that_leads_nowhere_is_quoted(command: str, told: str):
    with pytest.raises(ConnectionError, match=told):
        await PipeExecutor.connect(("sh", "-c", command))


async def test_a_command_that_is_not_there_is_named():
    with pytest.raises(ConnectionError, match="cannot reach the box: 'no-such-command': No such"):
        await PipeExecutor.connect(("no-such-command",), name="the box")


@pytest.mark.parametrize("old", [False, True])
async def test_a_machine_without_a_new_python_says_so(tmp_path: Path, old: bool):
    (tmp_path / "sh").symlink_to("/bin/sh")
    if old:
        python = tmp_path / "python3"
        as_old = "import sys; sys.version_info = (3, 10, 1); sys.argv = sys.argv[2:]"
        python.write_text(
            f"#!/bin/sh\nexec {sys.executable} -c '{as_old}; exec(sys.argv[0])' \"$@\""
        )
        python.chmod(0o755)
    with pytest.raises(ConnectionError, match=r"there is no Python 3\.11 or newer here"):
        await PipeExecutor.connect(env={"PATH": str(tmp_path)})


async def test_a_greeting_of_the_login_is_skipped(scene: Scene):
    greet = ("sh", "-c", 'echo "Last login: today"; exec "$@"', "sh")
    far = await PipeExecutor.connect(greet, env=far_environ(scene.home))
    assert far.hello.version == 1
    await far.close()


async def test_the_far_end_needs_nothing_but_python_and_is_always_the_same(tmp_path: Path):
    archive = tmp_path / "far.pyz"
    archive.write_bytes(far_archive())
    far_archive.cache_clear()
    assert far_archive() == archive.read_bytes()
    listing = (
        "import sys; sys.path.insert(0, sys.argv[1]); import importlib, zipfile\n"
        "names = [n[:-3].replace('/', '.') for n in zipfile.ZipFile(sys.argv[1]).namelist()]\n"
        "names = [n.removesuffix('.__init__') for n in names if n != '__main__']\n"
        "[importlib.import_module(n) for n in names]\n"
        "print(sorted(m for m, v in sys.modules.items() if 'site-packages' in str(v)))"
    )
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", listing, str(archive)),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await run.communicate()
    assert (out, run.returncode) == (b"[]\n", 0)


async def test_a_far_end_that_hears_nonsense_gives_up():
    run = await asyncio.create_subprocess_exec(
        *far_command(), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await run.communicate(far_archive() + b"\0\0\0\3abc")
    assert out.startswith(b"\0treadle far end\n")
    assert run.returncode == 0


async def test_large_files_pass_whole(scene: Scene, far: PipeExecutor):
    data = os.urandom(1 << 20) * 5
    await far.write(scene.cwd / "large", data, bounds=scene.bounds)
    assert await far.read(scene.cwd / "large", bounds=scene.bounds) == data
