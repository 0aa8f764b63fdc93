from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from treadle.sandbox.policy import SandboxPolicy
from treadle.sandbox.probe import find_bubblewrap

from . import runner

NOBODY = 65534
IDENTITIES = [os.geteuid(), *([NOBODY] if os.geteuid() == 0 else [])]
"""Whom the suite runs as: itself, and another user where it may become one."""

ROOMY = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)
PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
KEY = "sk-treadle-never-seen"
SECRET = "a-secret-of-the-process"


@dataclass(slots=True)
class Arena:
    """A workspace with something to steal and something to break right beside it."""

    top: Path
    uid: int
    process: subprocess.Popen[bytes]

    @property
    def workspace(self) -> Path:
        return self.top / "workspace"

    @property
    def outside(self) -> Path:
        return self.top / "outside"

    @property
    def home(self) -> Path:
        return self.top / "home"

    @property
    def key(self) -> Path:
        return self.home / "auth.json"

    @property
    def victim(self) -> Path:
        return self.outside / "victim"

    @property
    def search(self) -> str:
        """Where the one who runs the commands finds the tools of a sandbox."""
        assert isinstance(self.process.args, list)
        return str(self.process.args[-1])

    def environ(self) -> dict[str, str]:
        return {
            "PATH": PLAIN_PATH,
            "WS": str(self.workspace),
            "OUT": str(self.outside),
            "TREADLE": str(self.home),
            "HOME": str(self.top / "user"),
            "PYTHON": interpreter(self.uid),
        }

    def run(
        self,
        *argv: object,
        policy: SandboxPolicy = ROOMY,
        cwd: Path | None = None,
        unconfined: bool = False,
        environ: dict[str, str] | None = None,
    ) -> runner.Outcome:
        job = runner.Job(
            argv=list(map(str, argv)),
            cwd=str(cwd or self.workspace),
            workspace=str(self.workspace),
            home=str(self.home),
            environ={**self.environ(), **(environ or {})},
            policy=policy,
            unconfined=unconfined,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(msgspec.json.encode(job) + b"\n")
        self.process.stdin.flush()
        return msgspec.json.decode(self.process.stdout.readline(), type=runner.Outcome)

    def shell(self, script: str, **how: object) -> runner.Outcome:
        return self.run("bash", "-c", script, **how)  # type: ignore[arg-type]

    def python(self, script: str, *arguments: object, **how: object) -> runner.Outcome:
        return self.run(interpreter(self.uid), "-c", script, *arguments, **how)  # type: ignore[arg-type]

    def make(self, path: Path, text: str = "") -> Path:
        """A file that belongs to the one who runs the commands."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for each in (path, *path.parents):
            if each == self.top:
                break
            os.chown(each, self.uid, -1)
        return path


@contextmanager
def arena(uid: int, process: subprocess.Popen[bytes]) -> Iterator[Arena]:
    top = Path(tempfile.mkdtemp(prefix="treadle-arena-"))
    try:
        for name in ("workspace", "outside", "home", "user"):
            (top / name).mkdir()
            os.chown(top / name, uid, -1)
        top.chmod(0o755)
        os.chown(top, uid, -1)
        built = Arena(top, uid, process)
        built.make(built.key, KEY)
        built.make(built.victim, "untouched")
        yield built
    finally:
        shutil.rmtree(top)


@contextmanager
def started(uid: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs commands as `uid`."""
    with tempfile.TemporaryDirectory(prefix="treadle-tools-") as tools:
        Path(tools).chmod(0o755)
        shutil.copy2(find_bubblewrap(Path(tools)).binary, f"{tools}/bwrap")
        with subprocess.Popen(
            [sys.executable, runner.__file__, str(uid), f"{tools}:{PLAIN_PATH}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "ARENA_SECRET": SECRET},
        ) as process:
            try:
                yield process
            finally:
                _ended(process)


def _ended(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin
    process.stdin.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()


def interpreter(uid: int) -> str:
    """A Python that the one who runs the commands can read."""
    if uid == os.geteuid():
        return sys.executable
    found = shutil.which("python3", path=PLAIN_PATH)
    assert found, "another user needs a Python outside of this user's home"
    return found


def running(marker: str) -> list[str]:
    """Processes whose arguments contain `marker`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(entry.name)
        except OSError:
            continue
    return found
