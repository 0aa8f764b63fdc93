from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import termios
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fork_server import Process, run

SCRIPT = Path(sys.executable).with_name("treadle")


@dataclass
class Done:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.split(b"\n") if line]


@dataclass
class Treadle:
    """The real console script, in a home and a project of its own."""

    home: Path
    project: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": f"{SCRIPT.parent}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self.project),
            "SHELL": "/bin/bash",
            "TREADLE_HOME": str(self.home),
            "PYTHONWARNINGS": "error",
            **self.environ,
        }

    def attempt(self, *args: str | bytes, stdin: bytes = b"", **options: Any) -> Done:
        done = run([SCRIPT, *args], input=stdin, cwd=self.project, env=self.env, **options)
        return Done(done.returncode, done.stdout, done.stderr.decode())

    def __call__(self, *args: str | bytes, stdin: bytes = b"") -> Done:
        done = self.attempt(*args, stdin=stdin)
        assert (done.code, "Traceback" in done.err) == (0, False), done.err
        return done

    def refused(self, *args: str | bytes, code: int = 1, **options: Any) -> str:
        """What the command says on standard error when it does not do what was asked."""
        done = self.attempt(*args, **options)
        assert (done.code, done.out, "Traceback" in done.err) == (code, b"", False), done
        return done.err


def until_it_waits(process: subprocess.Popen[bytes] | Process, pipe: int | None = None) -> None:
    """Wait until a process has emptied `pipe` and sleeps, which it then does for more input."""
    while pipe is not None and fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0") != b"\0\0\0\0":
        os.sched_yield()
    status = Path(f"/proc/{process.pid}/stat")
    while status.read_text().rpartition(") ")[2][0] != "S":
        os.sched_yield()
