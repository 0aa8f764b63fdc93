"""Commands that tools run: asked about, started, and read while they run.

Owns the way from a command to a session, and what a process has written that no result has
reported yet. Invariants: a command that is a patch never reaches a shell; output is read all
the time, reported once, and stored whole but for known secrets; no more than `MOST` processes
outlive their call at a time.
"""

from __future__ import annotations

import asyncio
import codecs
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..core.errors import SandboxUnavailable
from ..core.known_secrets import byte_blanker
from ..core.redact import known_secrets
from ..sandbox.approvals import Command
from .apply_patch import PatchOutcome, intercept_patch
from .contract import Progress, ToolCall, ToolContext, ToolResult
from .executor import Bounds, Process, ProcessSpec, ReportsRefusals
from .permission import Rejected, ask_permission
from .stored_output import OutputWriter
from .tool_output import Excerpt, OutputBuffer

__all__ = ["MOST", "CommandSession", "CommandSessions", "run_command", "start_session"]

MOST = 64
_PROTECTED = 8
"""The most recently used sessions, which are never ended to make room."""


async def run_command(
    call: ToolCall,
    context: ToolContext,
    command: Command,
    *,
    run: Callable[[Bounds], Awaitable[ToolResult]],
    report_patch: Callable[[PatchOutcome], str],
) -> ToolResult:
    """Run `command` for a call with `run`, in the bounds that it may run in.

    A command that is a patch is applied, and `report_patch` writes the result.
    """
    outcome = await intercept_patch(command, context)
    if outcome is not None:
        return ToolResult(report_patch(outcome), outcome.success, outcome.stop)
    bounds = await ask_permission(command, context)
    if isinstance(bounds, Rejected):
        return bounds.result(call.name)
    try:
        return await run(bounds)
    except (OSError, ValueError, SandboxUnavailable) as error:
        return ToolResult(f"{call.name} failed: {error}", success=False)


async def start_session(
    context: ToolContext,
    command: Command,
    bounds: Bounds,
    *,
    tty: bool = False,
) -> CommandSession:
    """Start the process of `command` and begin to read its output."""
    process = await context.executor.start(
        ProcessSpec(
            argv=command.argv,
            cwd=Path(command.cwd),
            bounds=bounds,
            tty=tty,
            thread=context.thread,
        )
    )
    # Who has no list of hosts is not asked what was refused: that may be far away.
    reports = process if bounds.policy.hosts and isinstance(process, ReportsRefusals) else None
    return CommandSession(process, OutputWriter(context.blobs), tty=tty, reports=reports)


class CommandSession:
    """One process, and its output so far."""

    def __init__(
        self,
        process: Process,
        writer: OutputWriter,
        *,
        tty: bool = False,
        reports: ReportsRefusals | None = None,
    ) -> None:
        self.process, self.writer, self.tty = process, writer, tty
        self._reports = reports
        self._raise_notice: Callable[[str], None] | None = None
        self.number: int | None = None
        """The session ID for the model, once it outlives its call."""
        self.exit_code: int | None = None
        self._output = OutputBuffer()
        self._listener: Callable[[str], None] | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._reading = asyncio.create_task(self._read())

    @property
    def has_ended(self) -> bool:
        """Return whether the process has ended and all of its output has arrived."""
        return self._reading.done()

    async def wait(self, seconds: float) -> None:
        """Wait until it ends, at most for `seconds`."""
        await asyncio.wait({self._reading}, timeout=seconds)
        if self._reports is not None and self._raise_notice is not None:
            for refusal in await self._reports.take_refusals():
                self._raise_notice(f"a command's network was refused: {refusal}")
        if self._reading.done():
            self._reading.result()

    def take_output(self) -> Excerpt:
        """Take out the output since the last time."""
        return self._output.take(whole=self.has_ended)

    async def kill(self) -> None:
        """Kill the process and all that it started."""
        await self.process.kill()
        await asyncio.wait({self._reading})

    @contextmanager
    def show_progress(self, call: ToolCall, context: ToolContext) -> Iterator[None]:
        """Show the output to the host as it arrives, and what its network refused at the end."""
        self._listener = lambda text: context.show_progress(Progress(call.call_id, text))
        self._raise_notice = context.raise_notice
        try:
            yield
        finally:
            self._listener = self._raise_notice = None

    async def _read(self) -> None:
        blanker = byte_blanker()
        try:
            async for data in self.process.output():
                await self._take(blanker.feed(data, known_secrets()))
            await self._take(blanker.finish(known_secrets()))
            self.exit_code = await self.process.wait()
        except BaseException:
            await asyncio.shield(self.process.kill())
            raise

    async def _take(self, data: bytes) -> None:
        """Take in output without known secrets: to report it, show it and store it."""
        if not data:
            return
        self._output.add(data)
        if self._listener is not None and (text := self._decoder.decode(data)):
            self._listener(text)
        await self.writer.add(data)


class CommandSessions:
    """The processes of one thread that outlived the call that started them."""

    def __init__(self) -> None:
        self._live: dict[int, CommandSession] = {}
        self._numbers = itertools.count(1)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The session IDs of all that are kept."""
        return tuple(sorted(self._live))

    def use(self, number: int) -> CommandSession | None:
        """Return the session `number`, which then counts as the most recently used."""
        session = self._live.pop(number, None)
        if session is not None:
            self._live[number] = session
        return session

    async def add(self, session: CommandSession) -> None:
        """Keep `session`; kill the least recently used one when there are too many."""
        if len(self._live) >= MOST:
            await self.remove(self._least_used()).kill()
        session.number = next(self._numbers)
        self._live[session.number] = session

    def remove(self, session: CommandSession) -> CommandSession:
        """Forget `session`."""
        if session.number is not None:
            self._live.pop(session.number, None)
        return session

    def _least_used(self) -> CommandSession:
        """Return one that has ended, else any, and the one whose use is longest ago."""
        old = list(self._live.values())[:-_PROTECTED]
        return next((session for session in old if session.has_ended), old[0])
