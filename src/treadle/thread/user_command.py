"""The user's own commands: what a person runs beside the model, and what it is told of them.

Owns one decision: a command that the user typed runs as in their own terminal, outside the
sandbox and without approval, for it is theirs. Invariant: no text of a model ever gets here.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ..core.redact import redact_known
from ..core.text import whole_characters
from ..prompt.announcements import UserShellCommand
from ..sandbox.policy import SandboxPolicy
from ..tools.command_session import CommandSession
from ..tools.executor import Bounds, ProcessSpec
from ..tools.stored_output import OutputWriter

if TYPE_CHECKING:
    from pathlib import Path

    from ..tools.contract import Blobs
    from ..tools.executor import ToolExecutor

__all__ = ["run_user_command"]

_LOOK_SECONDS = 30.0


async def run_user_command(
    line: str, *, shell: str, cwd: Path, thread: str, executor: ToolExecutor, blobs: Blobs
) -> UserShellCommand:
    """Run a command line to its end; return what the model is told. Raises `OSError`."""
    began = time.monotonic()
    bounds = Bounds(policy=SandboxPolicy(mode="danger-full-access"), workspace=cwd)
    spec = ProcessSpec(argv=(shell, "-c", line), cwd=cwd, bounds=bounds, thread=thread)
    session = CommandSession(await executor.start(spec), OutputWriter(blobs))
    try:
        while not session.has_ended:
            await session.wait(_LOOK_SECONDS)
    except BaseException:
        await asyncio.shield(session.kill())
        raise
    exit_code = session.exit_code
    return UserShellCommand(
        command=redact_known(whole_characters(line)),
        exit_code=-1 if exit_code is None else exit_code,
        seconds=time.monotonic() - began,
        output=redact_known(whole_characters(session.take_output().text)),
    )
