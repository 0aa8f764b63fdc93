"""The script of a scripted app-server: its turns and its faults.

Owns the file format (the structs below as JSON) and the files: script, record and
rollouts in one directory. Invariants: the same script and the same requests give the same
messages, with the same ids; the record has every line that was sent, also to processes
that died.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ...core.errors import ConfigError
from ...core.typed import decode_json
from ...harness.codex.app_server import ServerCommand

__all__ = [
    "AppFault",
    "AppScript",
    "AppStep",
    "FaultKind",
    "TurnScript",
    "load_script",
    "received_messages",
    "scripted_command",
]

FaultKind: TypeAlias = Literal["die", "silence", "overload", "refuse", "garbage"]


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a script; an unknown key is an error."""


class AppStep(_Table, frozen=True, kw_only=True):
    """One step of a turn. The fields are executed in their order."""

    reasoning: str = ""
    text: str = ""
    tool: str = ""
    """A dynamic tool to call; the turn continues with its result."""
    arguments: dict[str, Any] = {}
    namespace: str | None = None
    command: str = ""
    """A command for which approval is requested."""
    notify: str = ""
    """The method of a notification; `params` and the ids of thread and turn are sent with it."""
    params: dict[str, Any] = {}
    compact: bool = False
    """Replace the history with a summary, like a native compaction."""
    wait: bool = False
    """Wait until the turn is steered or interrupted."""
    die: int | None = None
    """End the process with this status; a negative one is a signal."""
    tokens: int = 100
    """The total tokens that the response reports."""


class TurnScript(_Table, frozen=True, kw_only=True):
    """One turn; with `fail` it ends with that error, such as ``contextWindowExceeded``."""

    steps: tuple[AppStep, ...] = ()
    fail: str = ""


class AppFault(_Table, frozen=True, kw_only=True):
    """A fault at a request.

    `nth` counts the requests of that method from 1; 0 means each. A server dies
    ``before`` it does anything, when it is ``done`` but has not answered, or ``after``.
    """

    method: str
    kind: FaultKind
    nth: int = 0
    moment: Literal["before", "done", "after"] = "before"
    status: int = -9
    message: str = "it did not please the script"


class AppScript(_Table, frozen=True, kw_only=True):
    """Everything that a scripted app-server does. Turns after the last one answer ``Done.``."""

    version: str = "0.163.0"
    turns: tuple[TurnScript, ...] = ()
    faults: tuple[AppFault, ...] = ()
    compaction: TurnScript = TurnScript(steps=(AppStep(compact=True),))
    """The turn of a manual compaction."""
    lacks: tuple[str, ...] = ()
    """Methods it does not know."""
    stderr: str = ""
    """A line that is written to standard error."""


def load_script(path: Path) -> AppScript:
    """Read a script from a file. Raises `ConfigError`."""
    try:
        return decode_json(path.read_bytes(), AppScript)
    except OSError as error:
        raise ConfigError(
            f"cannot read the script {str(path)!r}: {error.strerror}; check the path"
        ) from error
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"the script {str(path)!r} cannot be used: {error}; correct it"
        ) from error


_RECORD = "received.jsonl"


def scripted_command(script: AppScript, directory: Path) -> ServerCommand:
    """Write `script`, and return the command of an app-server with its files in `directory`."""
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
    """Return the messages that it was sent, all or those of `method`, in order."""
    try:
        lines = (directory / _RECORD).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    messages = [msgspec.json.decode(line) for line in lines]
    return [each for each in messages if not method or each.get("method") == method]
