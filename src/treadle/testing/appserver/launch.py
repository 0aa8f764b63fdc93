"""Starting a scripted app-server, and reading what it heard.

Owns where its files lie: script, record and rollouts in one directory. Invariant: the
record holds every line it was sent, also by processes that died.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from ...harness.codex.launch import ServerCommand
from .script import AppScript

__all__ = ["received_messages", "scripted_command"]

_RECORD = "heard.jsonl"


def scripted_command(script: AppScript, directory: Path) -> ServerCommand:
    """How to start an app-server that follows `script` and keeps its state in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    place = directory / "script.json"
    place.write_bytes(msgspec.json.encode(script))
    return ServerCommand(
        binary=Path(sys.executable),
        arguments=(
            *("-m", "treadle.testing.appserver"),
            *("--script", str(place), "--record", str(directory / _RECORD)),
        ),
        environment={
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "CODEX_HOME": str(directory),
        },
    )


def received_messages(directory: Path, method: str = "") -> list[dict[str, Any]]:
    """The messages it was sent, those of `method` or all, in order."""
    try:
        lines = (directory / _RECORD).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    messages = [msgspec.json.decode(line) for line in lines]
    return [each for each in messages if not method or each.get("method") == method]
