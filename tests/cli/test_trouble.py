from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from treadle.store import SqliteStore

from .conftest import work
from .scripts import scripted, shell
from .terminal import SCRIPT, Treadle, until_it_waits
from .test_show import long_thread

READING = (
    ["threads"],
    ["show", "last"],
    ["prompt", "--thread", "last"],
    ["cache", "last"],
    ["fork", "last"],
    ["rewind", "last"],
    ["delete", "last", "--yes"],
    ["new", "hello"],
)


@pytest.mark.parametrize("args", READING, ids=lambda args: args[0])
def test_a_damaged_log_is_named_and_left_alone(treadle, args):
    log = treadle.home / "log.db"
    log.write_bytes(b"this is no database\n" * 400)
    before = log.read_bytes()
    said = treadle.refused(*args)
    assert said.startswith(f"treadle: {str(log)!r} is damaged or no database")
    assert "nothing was changed" in said
    assert log.read_bytes() == before


@pytest.mark.usefixtures("worked")
def test_a_log_of_a_newer_treadle_is_not_touched(treadle):
    with closing(sqlite3.connect(treadle.home / "log.db")) as log:
        log.execute("PRAGMA user_version = 99")
    said = treadle.refused("show", "last")
    assert "has layout 99, and this Treadle knows up to" in said
    assert said.endswith("upgrade Treadle to open it\n")


def test_a_home_that_is_a_file_is_a_usage_error(treadle):
    said = treadle.refused("--home", str(treadle.project / "AGENTS.md"), "threads", code=2)
    assert "is a file" in said


@pytest.fixture
def shared() -> Iterator[Treadle]:
    """A home that another user may read and not write."""
    # pytest's own directories are closed to other users.
    top = Path(tempfile.mkdtemp())
    top.chmod(0o755)
    treadle = Treadle(top / "home", top / "project")
    treadle.home.mkdir()
    treadle.project.mkdir()
    asyncio.run(work(treadle))
    for path in (top, *top.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield treadle
    for path in (top, *top.rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(top)


# Another user may be unable to read this Python's files, so everything is loaded first,
# by doing the same in a copy of the home.
AS_ANOTHER_USER = """
import contextlib, io, os, sys
from treadle.cli.app import run
copy, home, *args = sys.argv[1:]
with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
    run(["--home", copy, *args])
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
sys.exit(run(["--home", home, *args]))
"""


def by_another_user(treadle: Treadle, copy: Path, *args: str) -> subprocess.CompletedProcess[str]:
    shutil.copytree(treadle.home, copy)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755)
    return subprocess.run(
        [sys.executable, "-c", AS_ANOTHER_USER, copy, treadle.home, *args],
        capture_output=True,
        text=True,
        check=False,
        cwd=treadle.project,
    )


@pytest.mark.parametrize(
    "args",
    [
        ["threads", "--search", "changelog"],
        ["show", "last"],
        ["prompt", "hello"],
        ["prompt", "hello", "--thread", "last"],
        ["prompt", "--thread", "last", "--at", "6", "--json"],
        ["cache", "last", "--rebuild", "--check"],
    ],
    ids=" ".join,
)
def test_a_home_that_cannot_be_written_can_be_read(shared, tmp_path, args):
    before = {path: path.stat().st_mtime_ns for path in shared.home.rglob("*")}
    done = by_another_user(shared, tmp_path / "copy", *args)
    assert (done.returncode, bool(done.stdout), done.stderr) == (0, True, ""), done
    assert {path: path.stat().st_mtime_ns for path in shared.home.rglob("*")} == before


@pytest.mark.parametrize("args", [["new", "x"], ["fork", "last"], ["rewind", "last"]], ids=" ".join)
def test_a_home_that_cannot_be_written_says_so(shared, tmp_path, args):
    done = by_another_user(shared, tmp_path / "copy", *args)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (1, "", False)
    assert f"treadle: '{shared.home}/log.db' cannot be written" in done.stderr
    assert "check the owner and mode" in done.stderr


async def test_a_thread_that_is_written_elsewhere_can_be_read_but_not_changed(treadle):
    thread = await work(treadle)
    async with await SqliteStore.open(treadle.home) as store:
        await store.acquire(thread)
        for args in (["rewind", thread], ["delete", thread, "--yes"]):
            said = await asyncio.to_thread(treadle.refused, *args)
            assert said.startswith(
                f"treadle: thread {thread!r} is being written by process {os.getpid()}"
            )
        for args in (
            ["show", thread],
            ["prompt", "--thread", thread],
            ["prompt", "x", "--thread", thread],
        ):
            assert (await asyncio.to_thread(treadle, *args)).out


def test_an_interrupted_import_changes_nothing_and_leaves_no_process(treadle, tmp_path):
    pipe = tmp_path / "started"
    os.mkfifo(pipe)
    binary = tmp_path / "codex"
    binary.write_text(
        f"#!{sys.executable}\nimport os, time\n"
        f"open({str(pipe)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    binary.chmod(0o755)
    with subprocess.Popen(
        [SCRIPT, "prompts", "import", "--codex", binary], env=treadle.env, stderr=subprocess.PIPE
    ) as process:
        child = int(pipe.read_text())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert (process.returncode, err) == (130, b"\ntreadle: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert list(treadle.home.iterdir()) == []


def test_waiting_for_standard_input_can_be_interrupted(treadle):
    with subprocess.Popen(
        [SCRIPT, "new", "-"],
        env=treadle.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b"half a sentence")
        until_it_waits(process, process.stdin.fileno())
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr is not None
        assert process.stderr.read() == b"\ntreadle: interrupted\n"
    assert treadle("threads", "--json").json == []


def test_a_reader_that_had_enough_is_no_error(treadle):
    thread = asyncio.run(long_thread(treadle.home))
    with subprocess.Popen(
        [SCRIPT, "show", thread, "--json"],
        env=treadle.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"seq":1,')
        process.stdout.close()
        assert (process.wait(), process.stderr.read()) == (0, b"")


@pytest.mark.parametrize("args", [["threads"], ["threads", "--json"], ["--help"]])
def test_output_that_cannot_be_written_is_an_error(treadle, args):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [SCRIPT, *args], env=treadle.env, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"treadle: No space left on device")
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


def test_a_terminal_of_another_encoding_is_served(treadle):
    treadle.environ |= {"PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}
    treadle("new", "grün …")
    assert b"gr\xfcn ?" in treadle("show", "last").out
    assert (
        treadle("show", "last", "--json").json_lines[-1]["item"]["content"][0]["text"] == "grün …"
    )


def test_nothing_piped_has_colour(treadle):
    asyncio.run(work(treadle))
    treadle.environ |= {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    for args in (["threads"], ["show", "last", "--all"], ["prompt", "x"], ["cache", "last"]):
        assert b"\x1b" not in treadle(*args).out


@pytest.mark.parametrize(
    "args", [["prompt", "x"], ["threads"], ["prompts"], ["doctor"]], ids=" ".join
)
def test_looking_does_not_even_make_the_home(treadle, tmp_path, args):
    user = tmp_path / "user"
    user.mkdir()
    environ = {**treadle.env, "HOME": str(user)}
    del environ["TREADLE_HOME"]
    done = subprocess.run([SCRIPT, *args], env=environ, cwd=treadle.project, check=False)
    assert (done.returncode, list(user.iterdir())) == (0, [])


def test_a_hook_that_fails_is_a_line_and_no_traceback(treadle):
    (treadle.home / "config.toml").write_text(
        "[hooks.slow]\nevent = 'before_tool_call'\ncommand = ['sleep', '60']\ntimeout = 0.2\n"
        "[hooks.broken]\nevent = 'turn_end'\ncommand = ['false']\n"
    )
    calling = {"calls": [shell("touch here")]}
    done = treadle("exec", "x", "--model", scripted(treadle, calling, {"text": "Done."}))
    told = [line for line in done.err.splitlines() if line.startswith("treadle: ")]
    why = "a hook for 'before_tool_call' did not answer within 0.2 s"
    assert told[0] == f"treadle: exec_command was not run: a hook failed: {why}"
    assert len(told) == 2
    assert not (treadle.project / "here").exists()
