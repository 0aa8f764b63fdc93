"""Runs commands in sandboxes for the arena, as whoever it is told to be.

Reads one JSON request a line and answers each with one line. Everything is
imported before it becomes somebody else, who may not be able to read it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec import Struct

from treadle.core.errors import TreadleError
from treadle.sandbox.boundary import resolve_boundary
from treadle.sandbox.bubblewrap import Bubblewrap
from treadle.sandbox.launch import NoSandbox, Sandbox
from treadle.sandbox.policy import SandboxPolicy
from treadle.sandbox.probe import find_bubblewrap


class Job(Struct):
    argv: list[str]
    cwd: str
    workspace: str
    home: str
    environ: dict[str, str]
    policy: SandboxPolicy
    unconfined: bool = False


class Outcome(Struct):
    code: int
    stdout: str = ""
    stderr: str = ""
    refusal: str = ""


def perform(job: Job, bubblewrap: Bubblewrap) -> Outcome:
    boundary = resolve_boundary(
        job.policy, Path(job.workspace), home=Path(job.home), environ=job.environ
    )
    confined = replace(bubblewrap, home=Path(job.home))
    chosen: Sandbox = NoSandbox() if job.unconfined else confined
    try:
        launch = chosen.prepare(job.argv, cwd=Path(job.cwd), env=job.environ, boundary=boundary)
    except TreadleError as error:
        return Outcome(-1, refusal=str(error))
    with launch:
        done = subprocess.run(
            launch.argv,
            env=launch.env,
            cwd=launch.cwd,
            pass_fds=launch.fds,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    return Outcome(
        done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )


def become(uid: int) -> None:
    if uid != os.geteuid():
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)


def main() -> None:
    uid, search = sys.argv[1:]
    become(int(uid))
    with tempfile.TemporaryDirectory() as home:
        sandbox = find_bubblewrap(Path(home), {"PATH": search})
    for line in sys.stdin.buffer:
        outcome = perform(msgspec.json.decode(line, type=Job), sandbox)
        sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
