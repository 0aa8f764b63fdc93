"""What a scripted app-server does: its turns, and where it goes wrong.

Owns the file format: the structs below as JSON. Invariant: the same script and the same
requests give the same messages, ids included.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ...core.errors import ConfigError

__all__ = ["AppFault", "AppScript", "AppStep", "FaultKind", "TurnScript", "load"]

FaultKind: TypeAlias = Literal["die", "silence", "overload", "refuse", "garbage"]


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A table of a script: an unknown key is an error."""


class AppStep(_Table, frozen=True, kw_only=True):
    """One thing that happens in a turn. The fields are done in the order they stand in."""

    reasoning: str = ""
    text: str = ""
    tool: str = ""
    """A dynamic tool to call; the turn goes on with its answer."""
    arguments: dict[str, Any] = {}
    namespace: str | None = None
    command: str = ""
    """A command to ask approval for."""
    notify: str = ""
    """A method to send with `params`, the ids of thread and turn put in."""
    params: dict[str, Any] = {}
    compact: bool = False
    """Replace the history by a summary, as a native compaction does."""
    wait: bool = False
    """Wait until the turn is steered or interrupted."""
    die: int | None = None
    """End the process with this status, by a signal if it is negative."""
    tokens: int = 100
    """What the response is said to have used in all."""


class TurnScript(_Table, frozen=True, kw_only=True):
    """One turn; it fails with the error `fail`, such as ``contextWindowExceeded``."""

    steps: tuple[AppStep, ...] = ()
    fail: str = ""


class AppFault(_Table, frozen=True, kw_only=True):
    """Something that goes wrong with a request.

    `nth` counts the requests of that method from 1, 0 means each. A server dies
    ``before`` it does anything, when it is ``done`` but has not answered, or ``after``.
    """

    method: str
    kind: FaultKind
    nth: int = 0
    moment: Literal["before", "done", "after"] = "before"
    status: int = -9
    message: str = "it did not please the script"


class AppScript(_Table, frozen=True, kw_only=True):
    """All that a scripted app-server does. Turns beyond the last say ``Done.``."""

    version: str = "0.163.0"
    turns: tuple[TurnScript, ...] = ()
    faults: tuple[AppFault, ...] = ()
    compaction: TurnScript = TurnScript(steps=(AppStep(compact=True),))
    """What a native compaction by hand comes to."""
    lacks: tuple[str, ...] = ()
    """Methods it does not know."""
    stderr: str = ""
    """A line for standard error."""


def load(path: Path) -> AppScript:
    """The script in a file. Raises `ConfigError`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=AppScript)
    except OSError as error:
        raise ConfigError(
            f"cannot read the script {str(path)!r}: {error.strerror}; check the path"
        ) from error
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"the script {str(path)!r} cannot be used: {error}; correct it"
        ) from error
