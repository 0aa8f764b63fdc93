from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from examples.harbor.environment_executor import EnvironmentExecutor
from examples.swebench.make_tasks import make_task

from tests.cli.terminal import Treadle
from treadle import Thread
from treadle.evaluation.run_directory import RunDirectory
from treadle.evaluation.task import read_task
from treadle.harness.events import ToolFinished, TurnCompleted
from treadle.sandbox.policy import SandboxPolicy
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer, Call
from treadle.thread.options import Rights, ToolOptions
from treadle.tools.executor import Bounds
from treadle.tools.patch.errors import PatchFailed

ROOT = Path(__file__).parent.parent.parent
PREDICTIONS = ROOT / "examples" / "swebench" / "predictions.py"


@pytest.fixture
def treadle(tmp_path: Path) -> Treadle:
    (tmp_path / "project").mkdir()
    return Treadle(tmp_path / "home", tmp_path / "project")


class Said:
    def __init__(self, code: int, text: bytes) -> None:
        self.return_code, self.stdout, self.stderr = code, text.decode(), None


class ShellEnvironment:
    """What Harbor's environments can do, with the shell of this machine."""

    def __init__(self, place: Path) -> None:
        self.place, self.commands = place, list[str]()

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
    ) -> Said:
        assert timeout_sec is None
        self.commands.append(command)
        ran = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            command,
            cwd=cwd or self.place,
            env={**os.environ, **(env or {})},
            stdout=-1,
            stderr=-2,
        )
        said, _nothing = await ran.communicate()
        return Said(ran.returncode or 0, said)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        Path(target_path).write_bytes(Path(source_path).read_bytes())

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        Path(target_path).write_bytes(Path(source_path).read_bytes())


async def test_a_thread_works_in_an_environment_of_harbors_shape(tmp_path):
    place = tmp_path / "there"
    place.mkdir()
    (place / "thing.txt").write_text("broken\n")
    (place / "thing.txt").chmod(0o750)
    patch = (
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: thing.txt\n@@\n-broken\n+mended\n"
    )
    patch += "*** Add File: more/new.txt\n+new\n*** End Patch\nEOF"
    model = ScriptedModel(
        [
            Answer(calls=(Call(name="exec_command", arguments={"cmd": "cat thing.txt; exit 3"}),)),
            Answer(calls=(Call(name="exec_command", arguments={"cmd": patch}),)),
            Answer(text="Mended."),
        ]
    )
    environment = ShellEnvironment(place)
    async with Thread.open(
        model=model,
        cwd=place,
        home=tmp_path / "home",
        rights=Rights(sandbox="danger-full-access", approval="never"),
        tools=ToolOptions(executor=EnvironmentExecutor(environment), rewind_files=False),
    ) as thread:
        events = [event async for event in thread.run("mend it")]
    await model.close()
    outputs = [event.output for event in events if isinstance(event, ToolFinished)]
    assert "broken" in outputs[0]
    assert "Success. Updated the following files:\nA more/new.txt\nM thing.txt" in outputs[1]
    assert isinstance(events[-1], TurnCompleted)
    assert (place / "thing.txt").read_text() == "mended\n"
    assert (place / "thing.txt").stat().st_mode & 0o777 == 0o750
    assert (place / "more" / "new.txt").read_text() == "new\n"
    assert any("cat thing.txt" in command for command in environment.commands)


async def test_a_patch_that_does_not_fit_changes_nothing_there(tmp_path):
    (tmp_path / "a").write_text("one\n")
    executor = EnvironmentExecutor(ShellEnvironment(tmp_path))
    bounds = Bounds(policy=SandboxPolicy(mode="danger-full-access"), workspace=tmp_path)
    text = (
        "*** Begin Patch\n*** Add File: b\n+x\n*** Update File: a\n@@\n-two\n+three\n*** End Patch"
    )
    with pytest.raises(PatchFailed):
        await executor.patch(text, cwd=tmp_path, bounds=bounds)
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    with pytest.raises(FileNotFoundError):
        await executor.read(tmp_path / "b", bounds=bounds)
    assert await executor.read(tmp_path / "a", bounds=bounds, limit=2) == b"on"


def git(place: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    done = subprocess.run(
        ["git", *identity, *words], cwd=place, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_an_instance_becomes_a_task_and_its_run_a_prediction_that_git_applies(treadle, tmp_path):
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "lib.py").write_text("def one():\n    return 2\n")
    git(clone, "init", "-q")
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "base")
    instance = {
        "instance_id": "owner__lib-7",
        "repo": "owner/lib",
        "base_commit": git(clone, "rev-parse", "HEAD"),
        "problem_statement": "`one` returns two.",
    }
    task = make_task(instance, clone, tmp_path / "tasks")
    assert "`one` returns two." in read_task(task).instruction
    (task / "solution").mkdir()
    (task / "solution" / "script.toml").write_text(
        "[[answer]]\n[[answer.calls]]\nname = 'exec_command'\n[answer.calls.arguments]\n"
        "cmd = '''sed -i s/2/1/ lib.py && printf '\\000\\377\\001' > bytes'''\n"
        "[[answer]]\ntext = 'Done.'\n"
    )
    run = tmp_path / "run"
    treadle("eval", task, "--scripted", "-o", run)
    printed = subprocess.run(
        [sys.executable, PREDICTIONS, run], check=True, capture_output=True, cwd=tmp_path
    )
    (line,) = printed.stdout.splitlines()
    prediction = json.loads(line)
    assert prediction["instance_id"] == "owner__lib-7"
    assert prediction["model_name_or_path"] == "treadle+scripted solutions"
    patch = tmp_path / "model.patch"
    patch.write_bytes(prediction["model_patch"].encode(errors="surrogateescape"))
    git(clone, "apply", str(patch))
    assert (clone / "lib.py").read_text() == "def one():\n    return 1\n"
    assert (clone / "bytes").read_bytes() == b"\0\xff\1"
    result = RunDirectory(run).attempt("owner__lib-7", 1).result()
    assert result is not None
    assert result.solved
