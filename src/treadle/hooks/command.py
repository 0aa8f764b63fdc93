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
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ..core.errors import HookFailed
from ..core.redact import redact
from ..core.wire import UNREADABLE, json_bytes
from .answers import Answer
from .common import common_answer, common_event, common_no
from .payloads import Payload

__all__ = ["BLOCKS", "LONGEST_OUTPUT", "LONGEST_REASON", "CommandHook", "read_answer"]

BLOCKS = 2
"""The exit code that blocks."""

LONGEST_OUTPUT = 1 << 20
"""Bytes of an answer; a command that writes more has failed."""
LONGEST_REASON = 64 * 1024
"""The last bytes of standard error that are kept."""

_CHUNK = 1 << 16
_TO_DIE = 1.0
"""Seconds; a dead child that nobody buries looks alive for ever."""
_answer = msgspec.json.Decoder(Answer)


@dataclass(frozen=True, slots=True)
class CommandHook:
    """Runs a command for each event. The same command twice is one hook."""

    argv: Sequence[str]
    timeout: float | None = field(default=None, compare=False)
    """Seconds; None leaves it to whoever calls."""
    common: bool = False
    """Whether it speaks the common form instead of ours."""
    cwd: Path | None = None
    """Where it runs; None: where Treadle does."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "argv", tuple(self.argv))

    async def __call__(self, payload: Payload) -> Answer | None:
        """What the command answers. Raises `HookFailed`."""
        told = common_event(payload) if self.common else json_bytes(payload)
        process = await self._start()
        try:
            async with asyncio.timeout(self.timeout):
                out, err = await _heard(process, told)
        except TimeoutError:
            raise HookFailed(f"{self._name} did not answer within {self.timeout:g} s") from None
        finally:
            await _end(process)
        if process.returncode == BLOCKS:
            reason = err.decode(errors="replace").strip() or f"{self._name} said no"
            return common_no(reason, payload) if self.common else Answer(block=reason)
        if process.returncode != 0:
            said = redact(err.decode(errors="replace").strip())[-500:]
            raise HookFailed(f"{self._name} ended with code {process.returncode}: {said}")
        return self._read(out, payload)

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self.cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise HookFailed(f"{self._name} cannot be started: {error.strerror}") from error

    def _read(self, out: bytes, payload: Payload) -> Answer | None:
        if len(out) > LONGEST_OUTPUT:
            raise HookFailed(
                f"{self._name} wrote more than {LONGEST_OUTPUT} bytes; let it say less"
            )
        try:
            return read_answer(out, payload, common=self.common)
        except HookFailed as error:
            raise HookFailed(f"{self._name} answered what is no hook answer: {error}") from error

    @property
    def _name(self) -> str:
        return f"hook {self.argv[0]!r}"


def read_answer(out: bytes, payload: Payload, *, common: bool = False) -> Answer | None:
    """What a command means with its standard output. Raises `HookFailed`."""
    if not out.strip():
        return None
    try:
        return common_answer(out, payload) if common else _answer.decode(out)
    except UNREADABLE as error:
        raise HookFailed(str(error)) from error


async def _heard(process: asyncio.subprocess.Process, told: bytes) -> tuple[bytes, bytes]:
    """Tell a command its event; what it says until its end, as far as anyone wants to know."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.TaskGroup() as group:
        group.create_task(_tell(process.stdin, told))
        out = group.create_task(_first(process.stdout, LONGEST_OUTPUT + 1))
        err = group.create_task(_last(process.stderr, LONGEST_REASON))
    await process.wait()
    return out.result(), err.result()


async def _tell(stream: asyncio.StreamWriter, told: bytes) -> None:
    # A command may end without having read what it was told.
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(told)
        await stream.drain()
    stream.close()


async def _first(stream: asyncio.StreamReader, most: int) -> bytes:
    """The first bytes; the rest is read and dropped, so that its writer can go on."""
    kept = bytearray()
    while chunk := await stream.read(_CHUNK):
        kept += chunk[: most - len(kept)]
    return bytes(kept)


async def _last(stream: asyncio.StreamReader, most: int) -> bytes:
    kept = b""
    while chunk := await stream.read(_CHUNK):
        kept = (kept + chunk)[-most:]
    return kept


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the command and whatever it left running."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    # Its children end a little later, and nobody tells us when.
    with suppress(ProcessLookupError, TimeoutError):
        async with asyncio.timeout(_TO_DIE):
            while True:
                os.killpg(process.pid, signal.SIGKILL)
                await asyncio.sleep(0.005)
