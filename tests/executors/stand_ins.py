"""A machine with stand-ins for `docker` and `kubectl`, which keep their state in a directory."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["write_stand_ins"]

SCRIPTS = {
    "docker": Path(__file__).with_name("fake_docker.py"),
    "kubectl": Path(__file__).with_name("fake_kubectl.py"),
}


def write_stand_ins(place: Path, search: str) -> dict[str, str]:
    """Write the programs; return the variables with which they are found and find their state."""
    programs, state = place / "programs", place / "state"
    programs.mkdir()
    state.mkdir()
    for name, script in SCRIPTS.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
        program.chmod(0o755)
    return {"PATH": f"{programs}:{search}", "FAKE_STATE": str(state)}
