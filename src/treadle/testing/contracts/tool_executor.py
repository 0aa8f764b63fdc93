"""The contract of an executor.

Give a subclass two fixtures, `executor` and `workspace` (an empty directory that both
the executor and the test see), and run it under pytest-asyncio's auto mode:

    class TestMyExecutor(ExecutorContract):
        @pytest.fixture
        async def executor(self):
            yield MyExecutor(...)
"""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from ...sandbox.policy import SandboxMode, SandboxPolicy
from ...tools.executor import Bounds, Process, ProcessSpec, ToolExecutor
from ...tools.patch.errors import InvalidPatch, PatchFailed, PatchRefused

__all__ = ["ExecutorContract"]

_ADD = "*** Begin Patch\n*** Add File: new.txt\n+line\n*** End Patch"
MODES: tuple[SandboxMode, ...] = ("workspace-write", "danger-full-access")


def _bounds(workspace: Path, mode: SandboxMode = "workspace-write") -> Bounds:
    policy = SandboxPolicy(mode=mode, exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
    return Bounds(policy=policy, workspace=workspace)


def _spec(
    workspace: Path, script: str, *, mode: SandboxMode = "workspace-write", tty: bool = False
) -> ProcessSpec:
    return ProcessSpec(
        argv=("sh", "-c", script), cwd=workspace, bounds=_bounds(workspace, mode), tty=tty
    )


def _names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


async def _all(process: Process) -> bytes:
    return b"".join([data async for data in process.output()])


class _Processes:
    """Starting, feeding and ending processes."""

    @pytest.mark.parametrize("mode", MODES)
    async def test_output_of_both_streams_comes_in_order(
        self, executor: ToolExecutor, workspace: Path, mode: SandboxMode
    ) -> None:
        script = "echo one; echo two >&2; echo three; exit 7"
        process = await executor.start(_spec(workspace, script, mode=mode))
        assert await _all(process) == b"one\ntwo\nthree\n"
        assert await process.wait() == 7

    @pytest.mark.parametrize("mode", MODES)
    async def test_a_signal_counts_as_128_and_its_number(
        self, executor: ToolExecutor, workspace: Path, mode: SandboxMode
    ) -> None:
        process = await executor.start(_spec(workspace, "kill -TERM $$", mode=mode))
        assert (await _all(process), await process.wait()) == (b"", 143)

    async def test_a_process_works_in_its_directory_with_its_variables(
        self, executor: ToolExecutor, workspace: Path
    ) -> None:
        spec = ProcessSpec(
            argv=("sh", "-c", "pwd; echo $OURS; echo made > file"),
            cwd=workspace,
            bounds=_bounds(workspace),
            env={"OURS": "yes"},
        )
        process = await executor.start(spec)
        assert await _all(process) == f"{workspace}\nyes\n".encode()
        assert await executor.read(workspace / "file", bounds=spec.bounds) == b"made\n"

    async def test_input_is_empty_without_a_terminal(
        self, executor: ToolExecutor, workspace: Path
    ) -> None:
        process = await executor.start(_spec(workspace, "cat; echo end"))
        with pytest.raises(BrokenPipeError):
            await process.write(b"unheard\n")
        assert await _all(process) == b"end\n"

    @pytest.mark.parametrize("mode", MODES)
    async def test_a_terminal_is_typed_into(
        self, executor: ToolExecutor, workspace: Path, mode: SandboxMode
    ) -> None:
        script = "test -t 0 && test -t 1 && read line && echo got $line"
        process = await executor.start(_spec(workspace, script, mode=mode, tty=True))
        await process.write(b"word\n")
        assert (await _all(process)).endswith(b"got word\r\n")
        assert await process.wait() == 0

    @pytest.mark.parametrize("mode", MODES)
    async def test_an_interrupt_is_typed(
        self, executor: ToolExecutor, workspace: Path, mode: SandboxMode
    ) -> None:
        script = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done"
        process = await executor.start(_spec(workspace, script, mode=mode, tty=True))
        output = process.output()
        seen = b""
        while b"ready" not in seen:
            seen += await anext(output)
        await process.write(b"\x03")
        async for data in output:
            seen += data
        assert b"caught" in seen
        assert await process.wait() == 5

    async def test_typing_into_what_has_ended_is_refused(
        self, executor: ToolExecutor, workspace: Path
    ) -> None:
        process = await executor.start(_spec(workspace, "true", tty=True))
        await _all(process)
        await process.wait()
        with pytest.raises(BrokenPipeError):
            await process.write(b"late\n")

    @pytest.mark.parametrize("tty", [False, True])
    @pytest.mark.parametrize("mode", MODES)
    async def test_killing_ends_everything_it_started(
        self, executor: ToolExecutor, workspace: Path, mode: SandboxMode, tty: bool
    ) -> None:
        script = _BUSY + "echo up; wait"
        process = await executor.start(_spec(workspace, script, mode=mode, tty=tty))
        assert b"up" in await anext(process.output())
        await _grows(executor, workspace)
        await process.kill()
        assert await process.wait() == 137
        assert not await _still_grows(executor, workspace)

    @pytest.mark.parametrize("mode", MODES)
    async def test_what_it_leaves_behind_ends_with_it(
        self, executor: ToolExecutor, workspace: Path, mode: SandboxMode
    ) -> None:
        script = _BUSY + "sleep 0.2"
        process = await executor.start(_spec(workspace, script, mode=mode))
        assert (await _all(process), await process.wait()) == (b"", 0)
        assert not await _still_grows(executor, workspace)

    async def test_killing_what_has_ended_does_no_harm(
        self, executor: ToolExecutor, workspace: Path
    ) -> None:
        process = await executor.start(_spec(workspace, "exit 3"))
        await _all(process)
        assert await process.wait() == 3
        await process.kill()
        await process.kill()
        assert await process.wait() == 3

    async def test_a_writer_waits_for_its_reader(
        self, executor: ToolExecutor, workspace: Path
    ) -> None:
        script = "head -c 4000000 /dev/zero; echo done > after"
        process = await executor.start(_spec(workspace, script))
        output = process.output()
        size = len(await anext(output))
        await asyncio.sleep(0.3)
        with pytest.raises(FileNotFoundError):
            await executor.read(workspace / "after", bounds=_bounds(workspace))
        async for data in output:
            size += len(data)
        assert size == 4_000_000
        assert await executor.read(workspace / "after", bounds=_bounds(workspace)) == b"done\n"

    async def test_a_reader_that_gives_up_loses_nothing(
        self, executor: ToolExecutor, workspace: Path
    ) -> None:
        process = await executor.start(_spec(workspace, "sleep 0.3; echo late"))
        waiting = asyncio.ensure_future(anext(process.output()))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await _all(process) == b"late\n"

    async def test_many_run_at_once(self, executor: ToolExecutor, workspace: Path) -> None:
        processes = await asyncio.gather(
            *(executor.start(_spec(workspace, f"echo {n}")) for n in range(20))
        )
        outputs = await asyncio.gather(*map(_all, processes))
        assert outputs == [f"{n}\n".encode() for n in range(20)]
        assert await asyncio.gather(*(process.wait() for process in processes)) == [0] * 20

    async def test_a_missing_directory_is_an_error(
        self, executor: ToolExecutor, workspace: Path
    ) -> None:
        with pytest.raises(NotADirectoryError):
            await executor.start(_spec(workspace / "nowhere", "true"))

    async def test_writing_outside_the_roots_fails(
        self, executor: ToolExecutor, workspace: Path
    ) -> None:
        script = "touch ../outside && echo wrote || echo kept"
        process = await executor.start(_spec(workspace, script))
        assert (await _all(process)).endswith(b"kept\n")

    async def test_closing_ends_what_runs(self, executor: ToolExecutor, workspace: Path) -> None:
        await executor.start(_spec(workspace, _BUSY + "wait", mode="danger-full-access"))
        await _grows(executor, workspace)
        await executor.close()
        size = (workspace / "busy").stat().st_size
        await asyncio.sleep(0.15)
        assert (workspace / "busy").stat().st_size == size
        await executor.close()


_BUSY = """\
setsid sh -c 'while :; do echo . >> busy; sleep 0.01; done' >/dev/null 2>&1 </dev/null &
"""
"""Leaves the session and the output, as a daemon does."""


async def _size(executor: ToolExecutor, workspace: Path) -> int:
    try:
        return len(await executor.read(workspace / "busy", bounds=_bounds(workspace)))
    except FileNotFoundError:
        return 0


async def _grows(executor: ToolExecutor, workspace: Path) -> None:
    for _ in range(1000):
        if await _size(executor, workspace) >= 4:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the process does not write")


async def _still_grows(executor: ToolExecutor, workspace: Path) -> bool:
    size = await _size(executor, workspace)
    await asyncio.sleep(0.15)
    return await _size(executor, workspace) > size


class _Files:
    """Reading, writing and patching."""

    async def test_what_is_written_is_read(self, executor: ToolExecutor, workspace: Path) -> None:
        bounds, path = _bounds(workspace), workspace / "file"
        await executor.write(path, b"\0one", bounds=bounds)
        await executor.write(path, b"\0two\xff", bounds=bounds)
        assert await executor.read(path, bounds=bounds) == b"\0two\xff"
        assert await executor.read(path, bounds=bounds, limit=3) == b"\0tw"
        assert _names(workspace) == ["file"]

    async def test_a_missing_file_is_an_error(
        self, executor: ToolExecutor, workspace: Path
    ) -> None:
        with pytest.raises(FileNotFoundError):
            await executor.read(workspace / "none", bounds=_bounds(workspace))

    async def test_a_directory_is_no_file(self, executor: ToolExecutor, workspace: Path) -> None:
        with pytest.raises(IsADirectoryError):
            await executor.read(workspace, bounds=_bounds(workspace))

    async def test_a_pipe_is_no_file(self, executor: ToolExecutor, workspace: Path) -> None:
        process = await executor.start(_spec(workspace, "mkfifo pipe"))
        assert await process.wait() == 0
        with pytest.raises(OSError, match="regular file") as caught:
            await executor.read(workspace / "pipe", bounds=_bounds(workspace))
        assert caught.value.errno == errno.EINVAL

    @pytest.mark.parametrize("path", ["../outside", ".git/config", "link", "linked/file"])
    async def test_writing_outside_the_bounds_is_refused(
        self, executor: ToolExecutor, workspace: Path, path: str
    ) -> None:
        (workspace / ".git").mkdir()
        (workspace / "link").symlink_to(workspace.parent / "outside")
        (workspace / "linked").symlink_to(workspace.parent)
        with pytest.raises(PermissionError):
            await executor.write(workspace / path, b"x", bounds=_bounds(workspace))
        assert not (workspace.parent / "outside").exists()
        assert not (workspace.parent / "file").exists()

    async def test_nothing_is_written_under_read_only(
        self, executor: ToolExecutor, workspace: Path
    ) -> None:
        bounds = _bounds(workspace, "read-only")
        with pytest.raises(PermissionError):
            await executor.write(workspace / "file", b"x", bounds=bounds)
        with pytest.raises(PatchRefused):
            await executor.patch(_ADD, cwd=workspace, bounds=bounds)
        assert _names(workspace) == []

    async def test_without_a_sandbox_everything_may_be_written(
        self, executor: ToolExecutor, workspace: Path
    ) -> None:
        outside, bounds = workspace.parent / "outside", _bounds(workspace, "danger-full-access")
        await executor.write(outside, b"x", bounds=bounds)
        assert await executor.read(outside, bounds=bounds) == b"x"

    async def test_a_patch_tells_what_it_changed(
        self, executor: ToolExecutor, workspace: Path
    ) -> None:
        output = await executor.patch(_ADD, cwd=workspace, bounds=_bounds(workspace))
        assert output == "Success. Updated the following files:\nA new.txt\n"
        assert await executor.read(workspace / "new.txt", bounds=_bounds(workspace)) == b"line\n"

    async def test_a_patch_that_does_not_fit_changes_nothing(
        self, executor: ToolExecutor, workspace: Path
    ) -> None:
        patch = _ADD.replace("*** End", "*** Delete File: none\n*** End")
        with pytest.raises(PatchFailed) as caught:
            await executor.patch(patch, cwd=workspace, bounds=_bounds(workspace))
        assert caught.value.report.startswith("apply_patch verification failed: ")
        assert _names(workspace) == []

    async def test_what_is_no_patch_is_said_to_be_none(
        self, executor: ToolExecutor, workspace: Path
    ) -> None:
        with pytest.raises(InvalidPatch) as caught:
            await executor.patch("nonsense", cwd=workspace, bounds=_bounds(workspace))
        assert "The first line of the patch must be" in caught.value.report

    async def test_a_patch_outside_the_bounds_is_refused(
        self, executor: ToolExecutor, workspace: Path
    ) -> None:
        patch = _ADD.replace("new.txt", "../outside")
        with pytest.raises(PatchRefused) as caught:
            await executor.patch(patch, cwd=workspace, bounds=_bounds(workspace))
        assert caught.value.place == workspace.parent / "outside"
        assert not (workspace.parent / "outside").exists()


class ExecutorContract(_Processes, _Files):
    """What every `ToolExecutor` must do. Provide `executor` and `workspace`."""
