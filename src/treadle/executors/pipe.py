"""Executors where any command leads: ``pipe:nsenter -t 42 -a``.

Owns nothing that lives on: each connection is a new process of the user's command. Invariant:
what the command leads to is the user's own matter; the sandbox policy is enforced there.
"""

from __future__ import annotations

import shlex

from ..tools.executor_life import ExecutorRecord
from ..tools.pipe import PipeExecutor
from .choice import ExecutorChoice
from .program import command_here
from .remote_executor import RemoteExecutor, enter

__all__ = ["PipeSource"]


class PipeSource:
    """Connects to where a command leads; the words of a shell command are added to it."""

    contains = False

    def __init__(self, command: tuple[str, ...], choice: ExecutorChoice) -> None:
        self._command, self._choice = command, choice
        self.description = f"the place that {shlex.join(command)!r} leads to"
        self.plan = ExecutorRecord(
            kind="pipe", where=choice.where, workspace=choice.workspace or "~/treadle"
        )

    async def start(self, thread: str) -> RemoteExecutor:
        """Connect, and make the directory of the thread."""
        return await self._connect(self._choice.workspace or f"~/treadle/{thread}", thread)

    async def connect(self, record: ExecutorRecord) -> RemoteExecutor:
        """Connect again."""
        return await self._connect(record.workspace, record.owner, make=False)

    async def stop(self, record: ExecutorRecord) -> None:
        """Leave everything as it is: the files there are the user's."""

    async def _connect(self, directory: str, thread: str, *, make: bool = True) -> RemoteExecutor:
        command = await command_here(*self._command)
        pipe = await PipeExecutor.connect(command, name=self.description)
        workspace = await enter(pipe, directory, make=make)
        record = ExecutorRecord(
            kind="pipe", where=self.plan.where, workspace=workspace, owner=thread
        )
        return RemoteExecutor(pipe, record, env=self._choice.env)
