"""`exec_command` and `write_stdin`: commands that may outlive the call.

Owns their arguments, waiting times and results. Invariant: a call returns when its command
ends or its waiting time does, whichever is first, and its result says which.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Literal

from msgspec import Struct

from ..core.text import TruncationPolicy
from ..sandbox.approvals import Command
from .arguments import InvalidArguments, parse_arguments
from .command_session import CommandSession, CommandSessions, run_command, start_session
from .contract import ToolCall, ToolContext, ToolResult
from .executor import Bounds
from .permission import ask_to_run_outside, escalation, was_stopped_by_sandbox
from .tool_output import Excerpt, exec_report, shape_output

__all__ = ["ExecTools"]

_DEFAULT_TOKENS = 10_000
_LETTERS = "abcdef"
"""Of names of output: never a number, so that none can be taken for a session ID."""

_INTERRUPT = "\x03"


class _ExecArguments(Struct, forbid_unknown_fields=True):
    cmd: str
    workdir: str | None = None
    shell: str | None = None
    login: bool = True
    tty: bool = False
    yield_time_ms: int = 10_000
    max_output_tokens: int | None = None
    sandbox_permissions: Literal["use_default", "require_escalated"] = "use_default"
    justification: str = ""
    prefix_rule: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return min(max(self.yield_time_ms, 250), 30_000) / 1000


class _WriteArguments(Struct, forbid_unknown_fields=True):
    session_id: int
    chars: str = ""
    yield_time_ms: int = 250
    max_output_tokens: int | None = None

    @property
    def seconds(self) -> float:
        low, high = (250, 30_000) if self.chars else (5_000, 300_000)
        return min(max(self.yield_time_ms, low), high) / 1000


class ExecTools:
    """The code of both tools for one thread; they share its sessions.

    `shell` runs command lines, `policy` bounds the output of a result.
    """

    def __init__(self, shell: str, policy: TruncationPolicy) -> None:
        self._shell, self._policy = shell, policy
        self._sessions = CommandSessions()

    async def exec_command(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run a command until it ends or its waiting time does."""
        try:
            arguments = parse_arguments(call.name, call.arguments, _ExecArguments)
        except InvalidArguments as error:
            return ToolResult(str(error), success=False)
        command = Command(
            (arguments.shell or self._shell, "-lc" if arguments.login else "-c", arguments.cmd),
            str(context.cwd / (arguments.workdir or "")),
            escalation(
                arguments.sandbox_permissions, arguments.justification, arguments.prefix_rule
            ),
            self._shell,
        )
        return await run_command(
            call,
            context,
            command,
            run=lambda bounds: self._run(call, context, arguments, command, bounds),
            report_patch=lambda outcome: exec_report(outcome.text, seconds=outcome.seconds),
        )

    async def _run(
        self,
        call: ToolCall,
        context: ToolContext,
        arguments: _ExecArguments,
        command: Command,
        bounds: Bounds,
    ) -> ToolResult:
        began = time.monotonic()
        session = await start_session(context, command, bounds, tty=arguments.tty)
        try:
            with session.show_progress(call, context):
                await session.wait(arguments.seconds)
            if not session.has_ended:
                await self._sessions.add(session)
        except BaseException:
            await asyncio.shield(session.kill())
            raise
        output = session.take_output()
        stop = False
        if was_stopped_by_sandbox(session.exit_code, output.text, bounds, context):
            again = await ask_to_run_outside(command, context)
            if isinstance(again, Bounds):
                return await self._run(call, context, arguments, command, again)
            stop = again.stop
        text = await self._report(session, output, began, arguments.max_output_tokens)
        return ToolResult(text, stop=stop)

    async def write_stdin(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Type into a running command, then wait until it ends or the waiting time does."""
        try:
            arguments = parse_arguments(call.name, call.arguments, _WriteArguments)
        except InvalidArguments as error:
            return ToolResult(str(error), success=False)
        session = self._sessions.use(arguments.session_id)
        if session is None:
            return ToolResult(
                f"{call.name} failed: no session {arguments.session_id} is running; it has ended, "
                f"or it ended with an earlier run of the program. {self._running()}",
                success=False,
            )
        began = time.monotonic()
        try:
            async with asyncio.timeout(arguments.seconds):
                await _type(session, arguments.chars)
        except TimeoutError:
            return ToolResult(
                f"{call.name} failed: session {arguments.session_id} reads no input, so only the "
                "beginning was typed; look at its output first, and type less at once",
                success=False,
            )
        except BrokenPipeError:
            return ToolResult(
                f"{call.name} failed: stdin is closed for this session; "
                "rerun exec_command with tty=true to keep stdin open",
                success=False,
            )
        with session.show_progress(call, context):
            await session.wait(arguments.seconds)
        output = session.take_output()
        return ToolResult(await self._report(session, output, began, arguments.max_output_tokens))

    def _running(self) -> str:
        """Say which sessions there are, for a model that took another number for one."""
        numbers = ", ".join(map(str, self._sessions.numbers))
        if numbers:
            return f"Running sessions: {numbers}."
        return "No command is running: start one with exec_command."

    async def _report(
        self, session: CommandSession, output: Excerpt, began: float, tokens: int | None
    ) -> str:
        """Report what a session has written; forget a session that has ended."""
        ended = session.has_ended
        if ended:
            self._sessions.remove(session)
        most = _DEFAULT_TOKENS if tokens is None else max(tokens, 0)
        limit = TruncationPolicy("tokens", min(most, self._policy.token_budget))
        return exec_report(
            await shape_output(output, limit, session.writer),
            chunk="".join(secrets.choice(_LETTERS) for _ in range(6)),
            seconds=time.monotonic() - began,
            exit_code=session.exit_code if ended else None,
            session=None if ended else session.number,
            tokens=output.tokens,
        )


async def _type(session: CommandSession, chars: str) -> None:
    if not chars or session.has_ended:
        return
    if chars == _INTERRUPT and not session.tty:
        # Without a terminal nobody turns the character into a signal.
        await session.kill()
        return
    await session.process.write(chars.encode())
