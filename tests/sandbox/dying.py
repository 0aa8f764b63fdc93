"""Starts sandboxed commands and dies early, as whoever it is told to be.

Each death is that of a process of its own, forked from this one. Everything is
imported before it becomes somebody else, who may not be able to read it.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.sandbox.runner import become
from treadle.sandbox.boundary import resolve_boundary
from treadle.sandbox.bubblewrap import Bubblewrap
from treadle.sandbox.policy import SandboxPolicy
from treadle.sandbox.probe import find_bubblewrap
from treadle.tools.local.process import spawn

HELD_BACK = """#!/bin/sh
until [ -e {gate} ]; do sleep 0.01; done
exec {tool} "$@"
"""


class Deaths(Struct):
    uid: int
    search: str
    workspace: str
    home: str
    argv: list[str]
    pauses: list[float]
    """How long each one lives on after it has started the command."""
    gate: str = ""
    """A file that is made after the last death. The command is not tied to anybody before."""


def tied_late(sandbox: Bubblewrap, gate: str) -> Bubblewrap:
    """`sandbox`, whose first tool that ends a command with its parent waits for `gate`."""
    late = Path(f"{gate}-tool")
    first = sandbox.bounding[0] if sandbox.bounding else sandbox.binary
    late.write_text(HELD_BACK.format(gate=gate, tool=first))
    late.chmod(0o755)
    if sandbox.bounding:
        return replace(sandbox, bounding=(late, sandbox.bounding[1]))
    return replace(sandbox, binary=late)


def start_and_die(sandbox: Bubblewrap, deaths: Deaths, pause: float) -> None:
    policy, workspace = SandboxPolicy(mode="workspace-write"), Path(deaths.workspace)
    boundary = resolve_boundary(policy, workspace, home=sandbox.home, environ={})
    environ = {"PATH": deaths.search}
    with sandbox.prepare(deaths.argv, cwd=workspace, env=environ, boundary=boundary) as launch:
        spawn(launch)
        time.sleep(pause)
        os.kill(os.getpid(), signal.SIGKILL)


def die(sandbox: Bubblewrap, deaths: Deaths) -> None:
    for pause in deaths.pauses:
        pid = os.fork()
        if pid == 0:
            start_and_die(sandbox, deaths, pause)
        _, status = os.waitpid(pid, 0)
        assert status == signal.SIGKILL


def main(arguments: Sequence[str]) -> None:
    deaths = msgspec.json.decode(arguments[0], type=Deaths)
    become(deaths.uid)
    with tempfile.TemporaryDirectory() as home:
        found = find_bubblewrap(Path(home), {"PATH": deaths.search})
    sandbox = replace(found, home=Path(deaths.home))
    if deaths.gate:
        die(tied_late(sandbox, deaths.gate), deaths)
        Path(deaths.gate).touch()
    else:
        die(sandbox, deaths)


if __name__ == "__main__":
    main(sys.argv[1:])
