from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.tools.dispatch import Dispatch, tools_by_name
from treadle.tools.executor import ProcessSpec
from treadle.tools.local import LocalExecutor

from .scenes import Scene, function_call, marked_processes, nap, until


def descriptors() -> list[str]:
    return sorted(each.name for each in Path("/proc/self/fd").iterdir())


def children() -> list[int]:
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


async def drained(executor: LocalExecutor, spec: ProcessSpec) -> bytes:
    process = await executor.start(spec)
    output = b"".join([data async for data in process.output()])
    await process.wait()
    return output


def spec_of(scene: Scene, script: str, *, tty: bool = False) -> ProcessSpec:
    return ProcessSpec(argv=("sh", "-c", script), cwd=scene.cwd, bounds=scene.bounds, tty=tty)


@pytest.fixture
def executor(scene: Scene) -> LocalExecutor:
    assert isinstance(scene.executor, LocalExecutor)
    return scene.executor


@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.parametrize("mode", ["workspace-write", "danger-full-access"])
async def test_neither_descriptors_nor_zombies_are_left(
    scene: Scene, executor: LocalExecutor, mode, tty: bool
):
    spec = spec_of(scene.in_mode(mode), "echo x; exit 1", tty=tty)
    await drained(executor, spec)
    before = descriptors(), children()
    for _ in range(5):
        await drained(executor, spec)
        (await executor.start(spec), await executor.start(spec))
    await executor.close()
    assert (descriptors(), children()) == before


async def test_a_start_that_is_given_up_leaves_nothing(scene: Scene, executor: LocalExecutor):
    await drained(executor, spec_of(scene, "true"))
    before = descriptors()
    for pause in (0, 0, 0.001, 0.002, 0.005, 0.01):
        starting = asyncio.ensure_future(executor.start(spec_of(scene, f"sleep {nap(64)}")))
        await asyncio.sleep(pause)
        starting.cancel()
        await asyncio.wait({starting})
    await executor.close()
    await until(lambda: descriptors() == before)
    assert marked_processes(nap(64)) == []


async def test_a_process_inherits_nothing_of_ours(scene: Scene, executor: LocalExecutor):
    ours = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(ours, True)
    try:
        spec = spec_of(scene.in_mode("danger-full-access"), "ls /proc/self/fd | wc -l")
        # Three standard ones, and the directory that is being listed.
        assert await drained(executor, spec) == b"4\n"
    finally:
        os.close(ours)


async def test_signals_that_python_ignores_work_in_commands(scene: Scene, executor: LocalExecutor):
    spec = spec_of(scene.in_mode("danger-full-access"), "yes | head -n 1; echo ${PIPESTATUS}")
    spec = ProcessSpec(argv=("bash", "-c", spec.argv[2]), cwd=scene.cwd, bounds=spec.bounds)
    assert await drained(executor, spec) == b"y\n141\n"


async def test_the_loop_runs_on_beside_a_fast_writer(scene: Scene, executor: LocalExecutor):
    process = await executor.start(spec_of(scene, "yes"))
    ticks = 0

    async def drain() -> None:
        async for _ in process.output():
            pass

    reading = asyncio.ensure_future(drain())
    for _ in range(20):
        await asyncio.sleep(0.001)
        ticks += 1
    await process.kill()
    await reading
    assert ticks == 20


@pytest.mark.parametrize("seed", range(10))
async def test_an_abort_at_any_moment_leaves_nothing(
    scene: Scene, executor: LocalExecutor, seed: int
):
    chance = random.Random(seed)
    nap = f"72.{os.getpid()}{seed}"  # nobody else's: the other worker's tests nap as well
    await drained(executor, spec_of(scene, "true"))
    before = descriptors()
    where = scene.in_mode(chance.choice(["workspace-write", "danger-full-access"]))
    dispatch = Dispatch(tools_by_name(where.tools), where.context)
    for number in range(3):
        arguments = {"cmd": f"setsid sleep {nap} & sleep {nap}", "tty": chance.random() < 0.5}
        call = function_call("exec_command", json.dumps(arguments), str(number))
        dispatch.submit(call.item)
    await asyncio.sleep(chance.random() / 8)
    await dispatch.abort()
    finished = [each async for each in dispatch.results()]
    assert sorted(each.position for each in finished) == [0, 1, 2]
    assert marked_processes(nap) == []
    await until(lambda: descriptors() == before)


@pytest.mark.parametrize("next_one", ['exec "$0"', '"$0" &'])
async def test_a_program_that_replaces_itself_all_the_time_is_killed(
    scene: Scene, executor: LocalExecutor, next_one: str
):
    # While a process changes its program, its environment and so its mark cannot be read; one
    # that ends may have started another one after all processes were listed.
    restless = scene.cwd / f"restless-{os.getpid()}.sh"
    runs = scene.cwd / "runs"
    restless.write_text(f"#!/bin/sh\necho >> {runs}\n{next_one}\n")
    restless.chmod(0o755)
    spec = spec_of(scene.in_mode("danger-full-access"), f"setsid {restless} & sleep 0.02")
    try:
        for _ in range(20):
            await drained(executor, spec)
            before = runs.stat().st_size
            await asyncio.sleep(0.02)
            assert runs.stat().st_size == before
    finally:
        restless.unlink()  # nothing else would ever end it


CHILD = """
import asyncio, sys
from pathlib import Path
from treadle.sandbox.policy import SandboxPolicy
from treadle.tools.executor import Bounds, ProcessSpec
from treadle.tools.local import LocalExecutor

async def main(work, home, mode, script):
    executor = LocalExecutor(home=Path(home))
    bounds = Bounds(policy=SandboxPolicy(mode=mode), workspace=Path(work))
    spec = ProcessSpec(argv=("sh", "-c", script), cwd=Path(work), bounds=bounds)
    process = await executor.start(spec)
    print((await anext(process.output())).decode(), flush=True)
    await {ending}

asyncio.run(main(*sys.argv[1:]))
"""


def child(ending: str, scene: Scene, mode: str, script: str) -> subprocess.Popen[str]:
    arguments = [str(scene.cwd), str(scene.home), mode, script]
    return subprocess.Popen(
        [sys.executable, "-c", CHILD.replace("{ending}", ending), *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_a_sandboxed_command_dies_with_a_killed_parent(scene: Scene):
    script = f"setsid sleep {nap(65)} & echo up; sleep {nap(65)}"
    parent = await asyncio.to_thread(child, "process.wait()", scene, "workspace-write", script)
    assert parent.stdout is not None
    assert await asyncio.to_thread(parent.stdout.readline) == "up\n"
    assert marked_processes(nap(65))
    parent.send_signal(signal.SIGKILL)
    await asyncio.to_thread(parent.wait)
    parent.stdout.close()
    await until(lambda: marked_processes(nap(65)) == [])


async def test_an_unconfined_command_of_a_killed_program_is_ended_by_the_next(
    scene: Scene, executor: LocalExecutor
):
    script = f"echo up; setsid sleep {nap(70)}"
    parent = await asyncio.to_thread(child, "process.wait()", scene, "danger-full-access", script)
    assert parent.stdout is not None
    assert await asyncio.to_thread(parent.stdout.readline) == "up\n"
    other = await executor.start(spec_of(scene.in_mode("danger-full-access"), f"sleep {nap(71)}"))
    await until(lambda: bool(marked_processes(nap(70)) and marked_processes(nap(71))))
    parent.send_signal(signal.SIGKILL)
    await asyncio.to_thread(parent.wait)
    parent.stdout.close()
    following = LocalExecutor(home=scene.home)
    await drained(following, spec_of(scene.in_mode("danger-full-access"), "true"))
    await until(lambda: marked_processes(nap(70)) == [])
    assert marked_processes(nap(71))
    await other.kill()


async def test_a_loop_that_ends_takes_its_processes_with_it(scene: Scene):
    script = f"echo up; sleep {nap(66)}"
    parent = await asyncio.to_thread(child, "asyncio.sleep(0)", scene, "danger-full-access", script)
    out, _ = await asyncio.to_thread(parent.communicate)
    assert (out.strip(), parent.returncode) == ("up", 0)
    assert marked_processes(nap(66)) == []
