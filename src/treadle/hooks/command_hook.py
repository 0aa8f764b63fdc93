"""Command hooks: a program that reads an event and writes an answer.

Owns the protocol: the event as JSON on standard input; on standard output nothing or one JSON
object with the fields of `HookAnswer`; exit code 2 blocks, with standard error as the reason.
Invariant: a command that hangs, crashes or writes something else has failed, and its process
group is gone when that is reported.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ..core.errors import HookFailed
from ..core.redact import redact
from ..core.wire import UNREADABLE, json_bytes
from .common_form import encode_event, parse_output, refusal
from .payloads import HookAnswer, Payload

__all__ = ["BLOCKS", "LONGEST_OUTPUT", "LONGEST_REASON", "CommandHook", "parse_answer"]

BLOCKS = 2
"""The exit code that blocks."""

LONGEST_OUTPUT = 1 << 20
"""Bytes of an answer; a command that writes more has failed."""
LONGEST_REASON = 64 * 1024
"""The last bytes of standard error that are kept."""

_CHUNK = 1 << 16
_EXIT_SECONDS = 1.0
"""How long to wait for children; a dead one that nobody reaps looks alive for ever."""
_answers = msgspec.json.Decoder(HookAnswer)


@dataclass(frozen=True, slots=True)
class CommandHook:
    """A hook that runs a command for each event. The same command twice is one hook."""

    argv: Sequence[str]
    timeout: float | None = field(default=None, compare=False)
    """Seconds; None leaves it to the caller."""
    common: bool = False
    """Whether it uses the common form instead of ours."""
    cwd: Path | None = None
    """Where it runs; None: where Treadle does."""
    environ: Mapping[str, str] | None = field(default=None, compare=False)
    """None: that of this process."""
    name: str = field(default="", compare=False)
    """What it is called in errors; its program where this is empty."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "argv", tuple(self.argv))

    async def __call__(self, payload: Payload) -> HookAnswer | None:
        """Run the command and return its answer. Raises `HookFailed`."""
        event = encode_event(payload) if self.common else json_bytes(payload)
        process = await self._start()
        try:
            async with asyncio.timeout(self.timeout):
                out, err = await _communicate(process, event)
        except TimeoutError:
            raise HookFailed(f"{self._name} did not answer within {self.timeout:g} s") from None
        finally:
            await _kill_group(process)
        if process.returncode == BLOCKS:
            reason = err.decode(errors="replace").strip() or f"{self._name} said no"
            return refusal(reason, payload) if self.common else HookAnswer(block=reason)
        if process.returncode != 0:
            reason = redact(err.decode(errors="replace").strip())[-500:]
            raise HookFailed(f"{self._name} ended with code {process.returncode}: {reason}")
        return self._parse(out, payload)

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self.cwd,
                env=self.environ,
                start_new_session=True,
            )
        except OSError as error:
            raise HookFailed(f"{self._name} cannot be started: {error.strerror}") from error

    def _parse(self, out: bytes, payload: Payload) -> HookAnswer | None:
        if len(out) > LONGEST_OUTPUT:
            raise HookFailed(
                f"{self._name} wrote more than {LONGEST_OUTPUT} bytes; make it write less"
            )
        try:
            return parse_answer(out, payload, common=self.common)
        except HookFailed as error:
            raise HookFailed(f"{self._name} answered what is no hook answer: {error}") from error

    @property
    def _name(self) -> str:
        return f"hook {(self.name or self.argv[0])!r}"


def parse_answer(out: bytes, payload: Payload, *, common: bool = False) -> HookAnswer | None:
    """Return the answer in a command's standard output. Raises `HookFailed`."""
    if not out.strip():
        return None
    try:
        return parse_output(out, payload) if common else _answers.decode(out)
    except UNREADABLE as error:
        raise HookFailed(str(error)) from error


async def _communicate(process: asyncio.subprocess.Process, event: bytes) -> tuple[bytes, bytes]:
    """Send a command its event; return what it writes until its end, up to the limits."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.TaskGroup() as group:
        group.create_task(_send(process.stdin, event))
        out = group.create_task(_read_first(process.stdout, LONGEST_OUTPUT + 1))
        err = group.create_task(_read_last(process.stderr, LONGEST_REASON))
    await process.wait()
    return out.result(), err.result()


async def _send(stream: asyncio.StreamWriter, event: bytes) -> None:
    # A command may end without having read its event.
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(event)
        await stream.drain()
    stream.close()


async def _read_first(stream: asyncio.StreamReader, most: int) -> bytes:
    """Return the first bytes; read and drop the rest, so that the writer can go on."""
    kept = bytearray()
    while chunk := await stream.read(_CHUNK):
        kept += chunk[: most - len(kept)]
    return bytes(kept)


async def _read_last(stream: asyncio.StreamReader, most: int) -> bytes:
    kept = b""
    while chunk := await stream.read(_CHUNK):
        kept = (kept + chunk)[-most:]
    return kept


async def _drop(stream: asyncio.StreamReader | None) -> None:
    while stream is not None and await stream.read(_CHUNK):
        pass


async def _kill_group(process: asyncio.subprocess.Process) -> None:
    """Kill the command and whatever it left running."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # Its end is told after that of its pipes: what nobody has read keeps it waiting.
    with suppress(TimeoutError):
        async with asyncio.timeout(_EXIT_SECONDS):
            await asyncio.gather(_drop(process.stdout), _drop(process.stderr))
            await process.wait()
    # Its children end a little later, without a signal to us.
    with suppress(ProcessLookupError, TimeoutError):
        async with asyncio.timeout(_EXIT_SECONDS):
            while True:
                os.killpg(process.pid, signal.SIGKILL)
                await asyncio.sleep(0.005)
