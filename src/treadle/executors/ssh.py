"""Executors on other machines, over the system's own ssh client.

Owns its command line. Invariants: whatever the user's ssh configuration says about a host
holds; nothing is asked on the terminal, which is the chat's; a host is never read as an option.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..core.errors import InvalidOption
from ..core.search_path import find_program
from ..tools.executor_life import ExecutorRecord
from ..tools.pipe import PipeExecutor
from .choice import ExecutorChoice
from .remote_executor import RemoteExecutor, enter

__all__ = ["SshSource"]

_OURS = (sys.executable, "-P", "-m", "treadle.executors.ssh_client")
"""A client for machines that have none; not one that lies in the working directory."""

_OPTIONS = (
    *("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20"),
    *("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"),
    *("-o", "ForwardAgent=no", "-o", "ForwardX11=no", "-o", "ClearAllForwardings=yes"),
)
"""A connection that says nothing for a minute counts as lost; nothing of ours is lent there."""


class SshSource:
    """Connects to ``HOST`` or ``HOST:DIRECTORY``, as ssh knows it.

    `client` is the command in front of the usual options of ssh; without one it is ``ssh``, or
    where there is none, one of ours over asyncssh.
    """

    contains = False

    def __init__(self, what: str, choice: ExecutorChoice, *, client: Sequence[str] = ()) -> None:
        host, colon, directory = what.partition(":")
        if not host or host.startswith("-") or any(each.isspace() for each in host):
            raise InvalidOption(f"{host!r} is no host; write ssh:HOST or ssh:HOST:/directory")
        if colon and not directory.startswith(("/", "~")):
            raise InvalidOption(f"{directory!r} is no absolute directory; start it with '/' or '~'")
        self._host, self._choice, self._client = host, choice, tuple(client) or _usual_client()
        self._directory = choice.workspace or directory
        self.description = f"the machine {host!r}"
        self.plan = ExecutorRecord(
            kind="ssh", where=choice.where, id=host, workspace=self._directory or "~/treadle"
        )

    async def start(self, thread: str) -> RemoteExecutor:
        """Connect, and make the directory of the thread where none was named."""
        return await self._connect(self._directory or f"~/treadle/{thread}", thread)

    async def connect(self, record: ExecutorRecord) -> RemoteExecutor:
        """Connect again."""
        return await self._connect(record.workspace, record.owner, make=False)

    async def stop(self, record: ExecutorRecord) -> None:
        """Leave everything as it is: the files there are the user's."""

    async def _connect(self, directory: str, thread: str, *, make: bool = True) -> RemoteExecutor:
        command = (*self._client, *_OPTIONS, "--", self._host)
        pipe = await PipeExecutor.connect(command, line=True, name=self.description)
        workspace = await enter(pipe, directory, make=make)
        record = ExecutorRecord(
            kind="ssh", where=self.plan.where, id=self._host, workspace=workspace, owner=thread
        )
        address = f"ssh://{self._host}"
        return RemoteExecutor(pipe, record, env=self._choice.env, address=address)


def _usual_client() -> tuple[str, ...]:
    program = find_program("ssh")
    return _OURS if program is None else (str(program),)
