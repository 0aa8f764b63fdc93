"""Channels: the bytes between us and a far end.

Owns the command that leads there, its streams and what it complains about. Invariants: a
command gets no secret of our environment but what it needs to reach its machine; what it says
on standard error is kept for the error, and never mixed with messages or the user's terminal.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import Mapping, Sequence
from typing import Protocol

from ...core.redact import is_secret, one_line
from ..local.streams import Stream
from .protocol import ReadsBytes, WritesBytes

__all__ = ["Channel", "CommandChannel", "open_command"]

_EXIT_SECONDS = 5.0
_KEPT = 4096
"""Bytes of complaints that are kept: the last ones."""

_NEEDED = frozenset(
    ("SSH_AUTH_SOCK", "SSH_AGENT_PID", "DOCKER_HOST", "KUBECONFIG", "XAUTHORITY", "KRB5CCNAME")
)
"""Variables that look like secrets, and lead commands to their machines."""


class Channel(ReadsBytes, WritesBytes, Protocol):
    """A way to a far end: a stream of bytes there, and one back."""

    async def end(self) -> None:
        """End what leads there, and wait until it is gone. Harmless when called twice."""
        ...

    async def complaint(self) -> str:
        """Return in one line why it has ended, as far as that is known; empty where it is not."""
        ...


class CommandChannel:
    """The standard streams of a command that leads to a far end."""

    def __init__(self, command: Process, reader: Stream, writer: Stream) -> None:
        self._command, self._reader, self._writer = command, reader, writer
        self._heard = b""
        self._listening = asyncio.create_task(self._listen())

    async def read(self) -> bytes:
        """Wait for some bytes; return nothing at the end."""
        return await self._reader.read()

    async def write(self, data: bytes) -> None:
        """Send all of `data`."""
        await self._writer.write(data)

    def close(self) -> None:
        """Close both streams."""
        self._reader.close()
        self._writer.close()

    async def end(self) -> None:
        """Close the streams, and kill the command if that does not end it."""
        self.close()
        try:
            async with asyncio.timeout(_EXIT_SECONDS):
                await self._command.wait()
        except TimeoutError:
            self._command.kill()
            await self._command.wait()
        self._listening.cancel()
        await asyncio.wait({self._listening})

    async def complaint(self) -> str:
        """Return the last lines of its standard error, or how it ended."""
        try:
            async with asyncio.timeout(_EXIT_SECONDS):
                await asyncio.wait({self._listening})
                code = await self._command.wait()
        except TimeoutError:
            code = 0
        said = one_line(self._heard.decode(errors="replace").strip())
        return said or (f"its command ended with exit code {code}" if code else "")

    async def _listen(self) -> None:
        assert self._command.stderr is not None
        while data := await self._command.stderr.read(_KEPT):
            self._heard = (self._heard + data)[-_KEPT:]


async def open_command(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None
) -> CommandChannel:
    """Start a command and return its streams. Raises `OSError` when it cannot be started."""
    variables = _without_secrets(os.environ) if env is None else env
    (their_input, our_output), (our_input, their_output) = os.pipe(), os.pipe()
    try:
        command = await create_subprocess_exec(
            *argv,
            stdin=their_input,
            stdout=their_output,
            stderr=PIPE,
            env=variables,
            start_new_session=True,
        )
    except BaseException:
        os.close(our_output)
        os.close(our_input)
        raise
    finally:
        os.close(their_input)
        os.close(their_output)
    return CommandChannel(command, Stream(our_input), Stream(our_output))


def _without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name in _NEEDED or not is_secret(name, value)
    }
