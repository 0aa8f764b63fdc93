"""Command hooks: a program that reads an event and says what to do.

Owns the protocol: the event as JSON on standard input; on standard output nothing or
one JSON object with the fields of `Answer`; exit code 2 blocks, with standard error as
the reason. Invariant: a command that hangs, crashes or talks nonsense has failed, and
its process group is gone when that is said.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from ..errors import HookFailed
from ..wire import json_bytes
from .payloads import Payload
from .registry import Answer

__all__ = ["CommandHook"]

BLOCKS = 2
"""The exit code that blocks."""

_LONGEST_OUTPUT = 1 << 20
_answer = msgspec.json.Decoder(Answer)


@dataclass(frozen=True, slots=True)
class CommandHook:
    """Runs a command for each event."""

    argv: Sequence[str]
    timeout: float = 60.0

    async def __call__(self, payload: Payload) -> Answer | None:
        """What the command answers. Raises `HookFailed`."""
        process = await self._start()
        try:
            async with asyncio.timeout(self.timeout):
                out, err = await process.communicate(json_bytes(payload))
        except TimeoutError:
            raise HookFailed(f"{self._name} did not answer within {self.timeout:g} s") from None
        finally:
            await _end(process)
        if process.returncode == BLOCKS:
            return Answer(block=err.decode(errors="replace").strip() or f"{self._name} said no")
        if process.returncode != 0:
            said = err.decode(errors="replace").strip()[-500:]
            raise HookFailed(f"{self._name} ended with code {process.returncode}: {said}")
        return self._read(out)

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                limit=_LONGEST_OUTPUT,
            )
        except OSError as error:
            raise HookFailed(f"{self._name} cannot be started: {error.strerror}") from error

    def _read(self, out: bytes) -> Answer | None:
        if not out.strip():
            return None
        try:
            return _answer.decode(out[:_LONGEST_OUTPUT])
        except msgspec.MsgspecError as error:
            raise HookFailed(f"{self._name} answered what is no hook answer: {error}") from error

    @property
    def _name(self) -> str:
        return f"hook {self.argv[0]!r}"


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the command and whatever it left running."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
