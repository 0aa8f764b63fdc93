"""`exec_command` and `write_stdin`: commands that may outlive the call.

Owns their parameters, patience and results. Invariant: a call returns when its
command ends or its patience does, whichever is first, and says which.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from ..core.errors import SandboxUnavailable
from ..core.specs import FunctionTool, parameters
from ..core.text import TruncationPolicy
from ..sandbox.approvals import Command
from .arguments import BadArguments, read_arguments
from .contract import Progress, ToolCall, ToolContext, ToolResult
from .executor import Bounds, ProcessSpec
from .permission import (
    ESCALATION,
    Rejected,
    escalation,
    let_out,
    permitted,
    stopped_by_sandbox,
)
from .sessions import Session, Sessions

if TYPE_CHECKING:
    from .excerpt import Excerpt

__all__ = ["ExecCommand", "WriteStdin"]

_DEFAULT_TOKENS = 10_000
_INTERRUPT = "\x03"

_YIELD: dict[str, object] = {
    "type": "number",
    "description": "Milliseconds to wait for output before the call returns; the command goes on.",
}
_TOKENS: dict[str, object] = {
    "type": "number",
    "description": "How many tokens of output to return; more is cut in the middle.",
}


_EXEC_PARAMETERS: dict[str, dict[str, object]] = {
    "cmd": {"type": "string", "description": "The command line to run."},
    "workdir": {
        "type": "string",
        "description": "The directory to run in; the thread's own by default.",
    },
    "shell": {"type": "string", "description": "The shell to use; the user's own by default."},
    "login": {
        "type": "boolean",
        "description": "Whether the shell reads login files; true by default.",
    },
    "tty": {
        "type": "boolean",
        "description": "Whether the command gets a terminal to read from and write to; "
        "false by default: its input is empty.",
    },
    "yield_time_ms": _YIELD,
    "max_output_tokens": _TOKENS,
    **ESCALATION,
}


class _Exec(Struct, forbid_unknown_fields=True):
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


class _Write(Struct, forbid_unknown_fields=True):
    session_id: int
    chars: str = ""
    yield_time_ms: int = 250
    max_output_tokens: int | None = None


class _Reporter(Struct, frozen=True):
    """Tells what a session has written since the last time."""

    sessions: Sessions
    policy: TruncationPolicy

    async def tell(
        self, session: Session, output: Excerpt, began: float, limit: int | None
    ) -> ToolResult:
        import secrets

        from .reporting import body, exec_report

        ended = session.ended
        if ended:
            self.sessions.remove(session)
        text = exec_report(
            await body(output, self._limit(limit), session.keeper),
            chunk=secrets.token_hex(3),
            seconds=time.monotonic() - began,
            exit_code=session.exit_code if ended else None,
            session=None if ended else session.number,
            tokens=output.tokens,
        )
        return ToolResult(text)

    def _limit(self, asked: int | None) -> TruncationPolicy:
        most = _DEFAULT_TOKENS if asked is None else max(asked, 0)
        return TruncationPolicy("tokens", min(most, self.policy.token_budget))


class ExecCommand:
    """Runs a command in a shell."""

    parallel = True

    def __init__(self, sessions: Sessions, *, shell: str, policy: TruncationPolicy) -> None:
        self._sessions, self._shell = sessions, shell
        self._reporter = _Reporter(sessions, policy)
        self.spec = FunctionTool(
            name="exec_command",
            description="Runs a command in a shell. Returns its output, or, when it is still "
            "running, what it has written so far and a session ID for write_stdin.",
            parameters=parameters(_EXEC_PARAMETERS, required=("cmd",)),
        )

    def aborted(self, call: ToolCall, seconds: float) -> str:
        """What a model reads when the user ended a call."""
        del call
        return f"Wall time: {seconds:.1f} seconds\naborted by user"

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run the command until it ends or its patience does."""
        from .interception import intercepted
        from .reporting import exec_report

        try:
            asked = read_arguments(call.name, call.arguments, _Exec)
        except BadArguments as error:
            return ToolResult(str(error), success=False)
        command = Command(
            (asked.shell or self._shell, "-lc" if asked.login else "-c", asked.cmd),
            str(context.cwd / (asked.workdir or "")),
            escalation(asked.sandbox_permissions, asked.justification, asked.prefix_rule),
        )
        if (patched := await intercepted(command, context)) is not None:
            return patched.result(exec_report(patched.text, seconds=patched.seconds))
        bounds = await permitted(command, context)
        if isinstance(bounds, Rejected):
            return bounds.result(call.name)
        try:
            return await self._ran(call, context, asked, command, bounds)
        except (OSError, ValueError, SandboxUnavailable) as error:
            return ToolResult(f"{call.name} failed: {error}", success=False)

    async def _ran(
        self, call: ToolCall, context: ToolContext, asked: _Exec, command: Command, bounds: Bounds
    ) -> ToolResult:
        began = time.monotonic()
        session = await self._started(context, asked, command, bounds)
        patience = min(max(asked.yield_time_ms, 250), 30_000) / 1000
        try:
            with session.heard_by(lambda text: context.show(Progress(call.call_id, text))):
                await session.wait(patience)
            if not session.ended:
                await self._sessions.add(session)
        except BaseException:
            await asyncio.shield(session.kill())
            raise
        output = session.take()
        stop = False
        if stopped_by_sandbox(session.exit_code, output.text, bounds, context):
            again = await let_out(command, context)
            if isinstance(again, Bounds):
                return await self._ran(call, context, asked, command, again)
            stop = again.stop
        told = await self._reporter.tell(session, output, began, asked.max_output_tokens)
        return ToolResult(told.output, told.success, stop)

    async def _started(
        self, context: ToolContext, asked: _Exec, command: Command, bounds: Bounds
    ) -> Session:
        from .keeping import Keeper

        process = await context.executor.start(
            ProcessSpec(
                argv=command.argv,
                cwd=Path(command.cwd),
                bounds=bounds,
                tty=asked.tty,
                thread=context.thread,
            )
        )
        return Session(process, Keeper(context.kept), tty=asked.tty)


class WriteStdin:
    """Types into a command that is still running, or looks at what it has written."""

    parallel = True

    def __init__(self, sessions: Sessions, *, policy: TruncationPolicy) -> None:
        self._sessions = sessions
        self._reporter = _Reporter(sessions, policy)
        self.spec = FunctionTool(
            name="write_stdin",
            description="Types into a command that exec_command left running and returns what "
            "it has written since. Without chars it only waits for output.",
            parameters=parameters(
                {
                    "session_id": {
                        "type": "number",
                        "description": "The session ID that exec_command returned.",
                    },
                    "chars": {
                        "type": "string",
                        "description": "What to type; may be empty. \\u0003 interrupts it.",
                    },
                    "yield_time_ms": _YIELD,
                    "max_output_tokens": _TOKENS,
                },
                required=("session_id",),
            ),
        )

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Type, then wait until the command ends or the patience does."""
        try:
            asked = read_arguments(call.name, call.arguments, _Write)
        except BadArguments as error:
            return ToolResult(str(error), success=False)
        session = self._sessions.find(asked.session_id)
        if session is None:
            return ToolResult(
                f"{call.name} failed: no session {asked.session_id} is running; it has ended, "
                "or it ended with an earlier run of the program",
                success=False,
            )
        began = time.monotonic()
        try:
            async with asyncio.timeout(_patience(asked)):
                await _typed(session, asked.chars)
        except TimeoutError:
            return ToolResult(
                f"{call.name} failed: session {asked.session_id} reads no input, so only the "
                "beginning was typed; look at its output first, and type less at once",
                success=False,
            )
        except BrokenPipeError:
            return ToolResult(
                f"{call.name} failed: stdin is closed for this session; "
                "rerun exec_command with tty=true to keep stdin open",
                success=False,
            )
        with session.heard_by(lambda text: context.show(Progress(call.call_id, text))):
            await session.wait(_patience(asked))
        return await self._reporter.tell(session, session.take(), began, asked.max_output_tokens)


async def _typed(session: Session, chars: str) -> None:
    if not chars or session.ended:
        return
    if chars == _INTERRUPT and not session.tty:
        # Without a terminal nobody turns the character into a signal.
        await session.kill()
        return
    await session.process.write(chars.encode())


def _patience(asked: _Write) -> float:
    low, high = (250, 30_000) if asked.chars else (5_000, 300_000)
    return min(max(asked.yield_time_ms, low), high) / 1000
