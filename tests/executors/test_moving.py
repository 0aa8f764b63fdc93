"""Moving a thread with its files: what travels, what stays, and archives that nobody trusts."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import tarfile
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.harness.scenes import call, hear, last, scripted
from treadle import Rights, Thread, ToolOptions
from treadle.cli.app import treadle
from treadle.core.errors import ConfigError, ExecutorUnavailable
from treadle.executors import ExecutorChoice, unpack_files
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer
from treadle.thread.elsewhere import stored_record
from treadle.thread.moving import move_thread, plan_move


def git(place: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", *arguments],
        cwd=place,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def repository(place: Path) -> Path:
    """Make a repository with everything that may travel, and something that may not."""
    place.mkdir()
    git(place, "init", "-q", "-b", "topic")
    (place / ".gitignore").write_text("*.log\n")
    (place / "kept.txt").write_text("one\n")
    (place / "gone.txt").write_text("gone\n")
    (place / "run.sh").write_text("#!/bin/sh\n")
    git(place, "add", ".")
    git(place, "commit", "-qm", "first")
    (place / "kept.txt").write_text("two\n")
    (place / "gone.txt").unlink()
    (place / "new").mkdir()
    (place / "new" / "strange \n name").write_bytes(b"\0\xff")
    (place / "new" / "tool").write_text("x")
    (place / "new" / "tool").chmod(0o755)
    (place / "inside").symlink_to("new/tool")
    (place / "outside").symlink_to("/etc/passwd")
    (place / "huge.log").write_text("ignored")
    (place / ".git" / "hooks").mkdir(exist_ok=True)
    (place / ".git" / "hooks" / "post-checkout").write_text("#!/bin/sh\nfalse\n")
    return place


def open_thread(
    model: ScriptedModel, home: Path, cwd: Path, thread: str | None = None
) -> AbstractAsyncContextManager[Thread]:
    rights = Rights(approval="never", sandbox="danger-full-access")
    return Thread.open(thread, model=model, cwd=cwd, home=home, tools=ToolOptions(), rights=rights)


async def test_a_thread_moves_with_its_files_and_back(tmp_path: Path):
    project, home, far = repository(tmp_path / "project"), tmp_path / "home", tmp_path / "far"
    model = scripted(
        Answer(text="one"),
        Answer(calls=(call("exec_command", cmd="pwd; cat kept.txt; echo there > made"),)),
        Answer(text="two"),
        Answer(text="three"),
    )
    there = ExecutorChoice(where="pipe:env", workspace=str(far))
    async with open_thread(model, home, project) as thread:
        await hear(thread, "go")
        plan = await plan_move(thread, there)
        assert not far.exists(), "a plan does nothing"
        assert plan.report is not None
        assert (plan.report.git, plan.report.branch) == (True, "topic")
        assert (plan.report.files, plan.report.deleted) == (4, 1)
        assert plan.report.ignored == ("huge.log",)
        assert any("'outside' leads out" in note for note in plan.report.notes)
        await move_thread(thread, there)
    assert git(far, "log", "--format=%s %D") == "first HEAD -> topic"
    changed = git(far, "status", "--porcelain").splitlines()
    assert [each.split()[-1] for each in changed] == ["gone.txt", "kept.txt", "inside", "new/"]
    assert (far / "kept.txt").read_text() == "two\n"
    assert (far / "new" / "strange \n name").read_bytes() == b"\0\xff"
    assert os.access(far / "new" / "tool", os.X_OK)
    assert (far / "inside").readlink() == Path("new/tool")
    names = [".git", ".gitignore", "inside", "kept.txt", "new", "run.sh"]
    assert sorted(each.name for each in far.iterdir()) == names
    assert not (far / ".git" / "hooks" / "post-checkout").exists()
    back = tmp_path / "back"
    async with open_thread(model, home, project, thread.id) as thread:
        assert last(await hear(thread, "go on")).text == "two"
        assert "were taken along" in thread.request().body.decode()
        with pytest.raises(ConfigError, match="name an empty directory with --into"):
            await plan_move(thread, ExecutorChoice(where="local"))
        await move_thread(thread, ExecutorChoice(where="local"), into=back)
        record = stored_record(thread.log)
        assert record is not None
        assert (record.where, record.carried, record.number) == ("local", True, 2)
    assert (back / "made").read_text() == "there\n"
    assert git(back, "rev-parse", "HEAD") == git(project, "rev-parse", "HEAD")
    async with open_thread(model, home, back, thread.id) as thread:
        await hear(thread, "and on")
        assert "the user's machine again" in thread.request().body.decode()
    await model.close()


async def test_a_directory_without_a_repository_moves_too_and_limits_hold(tmp_path: Path):
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    (project / "data").write_bytes(os.urandom(300_000))
    model = scripted(Answer(text="one"))
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("stays")
    async with open_thread(model, home, project) as thread:
        await hear(thread, "go")
        far = ExecutorChoice(where="pipe:env", workspace=str(tmp_path / "far"))
        with pytest.raises(ExecutorUnavailable, match="more than 1000 bytes would travel"):
            await move_thread(thread, far, most=1000)
        taken = ExecutorChoice(where="pipe:env", workspace=str(full))
        with pytest.raises(ExecutorUnavailable, match="is not empty"):
            await move_thread(thread, taken)
        assert [each.name for each in full.iterdir()] == ["mine"]
        assert stored_record(thread.log) is None, "a move that failed has moved nothing"
        await move_thread(thread, far)
    assert (tmp_path / "far" / "data").read_bytes() == (project / "data").read_bytes()
    await model.close()


Member = tuple[tarfile.TarInfo, bytes]


def member(
    name: str, data: bytes = b"x", *, kind: bytes = tarfile.REGTYPE, target: str = ""
) -> Member:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, target, len(data)
    return made, data


HOSTILE = {
    "a name that leads up": [member("files/../out")],
    "an absolute name": [member("files//etc/out")],
    "git's own files": [member("files/.git/hooks/post-checkout")],
    "git's own files in other letters": [member("files/sub/.GIT /config")],
    "a link that leads up": [member("files/l", b"", kind=tarfile.SYMTYPE, target="../../out")],
    "an absolute link": [member("files/l", b"", kind=tarfile.SYMTYPE, target="/etc")],
    "a hard link": [member("files/l", b"", kind=tarfile.LNKTYPE, target="/etc/passwd")],
    "a device": [member("files/null", b"", kind=tarfile.CHRTYPE)],
    "another member": [member("elsewhere")],
    "a file below a file": [member("files/a"), member("files/a/b")],
    "a deleted name that leads up": [member("head.json", b'{"deleted": ["../victim"]}')],
    "a history that is none": [
        member("head.json", json.dumps({"commit": "0" * 40}).encode()),
        member("bundle", b"no bundle"),
    ],
    "an option as a commit": [
        member("head.json", json.dumps({"commit": "--all"}).encode()),
        member("bundle", b"no bundle"),
    ],
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_archive_leaves_an_empty_directory(tmp_path: Path, members: list[Member]):
    (tmp_path / "victim").write_text("here")
    target = tmp_path / "target"
    parts = target / unpack_files.PARTS
    parts.mkdir(parents=True)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for each, content in members:
            archive.addfile(each, io.BytesIO(content))
    (parts / "0").write_bytes(data.getvalue())
    with pytest.raises(SystemExit, match="the files were not unpacked"):
        unpack_files.main(str(target))
    assert list(target.iterdir()) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["target", "victim"]


async def test_move_shows_what_would_travel_before_it_asks(tmp_path: Path):
    project, home = repository(tmp_path / "project"), tmp_path / "home"
    model = scripted(Answer(text="one"))
    async with open_thread(model, home, project) as thread:
        await hear(thread, "go")
    await model.close()
    runner = CliRunner(env={"TREADLE_HOME": str(home)})
    words = ["move", thread.id, "--to", "pipe:env", "--dry-run"]
    done = await asyncio.to_thread(runner.invoke, treadle, words)
    assert done.exit_code == 0, done.output
    assert "history: commit " in done.output
    assert "files: 4 files (changed and untracked)" in done.output
    assert "stays, for git ignores it: huge.log" in done.output
