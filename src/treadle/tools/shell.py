"""`shell`, `shell_command` and `local_shell`: commands that end within the call.

Owns the older forms of running commands, for models that were taught them.
Invariant: when a call returns, its command has ended, by itself or by its time limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ..core.errors import SandboxUnavailable
from ..core.specs import FunctionTool, LocalShellTool, ToolSpec, parameters
from ..core.text import TruncationPolicy
from ..sandbox.approvals import Command
from .arguments import BadArguments, read_arguments
from .contract import Progress, ToolCall, ToolContext, ToolResult
from .excerpt import Excerpt
from .executor import Bounds, ProcessSpec
from .interception import intercepted
from .keeping import Keeper
from .permission import (
    ESCALATION,
    Rejected,
    escalation,
    let_out,
    permitted,
    stopped_by_sandbox,
)
from .reporting import cut_body, freeform_report, structured_report
from .sessions import Session

__all__ = ["ShellTool", "local_shell", "shell", "shell_command"]

_DEFAULT_TIMEOUT = 10_000
_TIMED_OUT = 124

_COMMON: dict[str, dict[str, object]] = {
    "workdir": {
        "type": "string",
        "description": "The directory to run in; the thread's own by default.",
    },
    "timeout_ms": {
        "type": "number",
        "description": "Milliseconds after which the command is ended; 10000 by default.",
    },
    "sandbox_permissions": ESCALATION["sandbox_permissions"],
    "justification": ESCALATION["justification"],
}


class Wish(Struct, frozen=True, kw_only=True):
    """What a model wants to run, whichever tool it used."""

    command: Command
    timeout_ms: int = _DEFAULT_TIMEOUT
    env: dict[str, str] = {}


class _Shared(Struct, forbid_unknown_fields=True, kw_only=True):
    workdir: str | None = None
    timeout_ms: int | None = None
    sandbox_permissions: Literal["use_default", "require_escalated"] = "use_default"
    justification: str = ""

    def wish(self, argv: tuple[str, ...], cwd: Path) -> Wish:
        return Wish(
            command=Command(
                argv,
                str(cwd / (self.workdir or "")),
                escalation(self.sandbox_permissions, self.justification, ()),
            ),
            timeout_ms=self.timeout_ms or _DEFAULT_TIMEOUT,
        )


class _Shell(_Shared, forbid_unknown_fields=True, kw_only=True):
    command: tuple[str, ...]


class _ShellCommand(_Shared, forbid_unknown_fields=True, kw_only=True):
    command: str
    login: bool = True


class _LocalShell(Struct, kw_only=True):
    command: tuple[str, ...]
    timeout_ms: int | None = None
    working_directory: str | None = None
    env: dict[str, str] | None = None


class ShellTool:
    """Runs a command to its end; `read` says what a call asks for."""

    parallel = False

    def __init__(
        self,
        spec: ToolSpec,
        read: Callable[[ToolCall, Path], Wish],
        *,
        policy: TruncationPolicy,
        freeform: bool = False,
    ) -> None:
        self.spec = spec
        self._read, self._policy, self._freeform = read, policy, freeform

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run the command until it ends or its time is up."""
        try:
            wish = self._read(call, context.cwd)
        except BadArguments as error:
            return ToolResult(str(error), success=False)
        if (patched := await intercepted(wish.command, context)) is not None:
            if not patched.success:
                return patched.result(patched.text)
            report = freeform_report if self._freeform else structured_report
            return patched.result(report(patched.text, exit_code=0, seconds=patched.seconds))
        bounds = await permitted(wish.command, context)
        if isinstance(bounds, Rejected):
            return bounds.result(call.name)
        try:
            return await self._ran(call, context, wish, bounds)
        except (OSError, ValueError, SandboxUnavailable) as error:
            return ToolResult(f"{call.name} failed: {error}", success=False)

    async def _ran(
        self, call: ToolCall, context: ToolContext, wish: Wish, bounds: Bounds
    ) -> ToolResult:
        began = time.monotonic()
        session = await _started(context, wish, bounds)
        try:
            with session.heard_by(lambda text: context.show(Progress(call.call_id, text))):
                await session.wait(max(wish.timeout_ms, 0) / 1000)
        finally:
            timed_out = not session.ended
            await asyncio.shield(session.kill())
        output, stop = session.take(), False
        if not timed_out and stopped_by_sandbox(session.exit_code, output.text, bounds, context):
            again = await let_out(wish.command, context)
            if isinstance(again, Bounds):
                return await self._ran(call, context, wish, again)
            stop = again.stop
        code = _TIMED_OUT if timed_out or session.exit_code is None else session.exit_code
        told = await cut_body(output, self._policy, session.keeper)
        if timed_out:
            told = f"command timed out after {wish.timeout_ms} milliseconds\n{told}"
        text = self._report(told, output, code, time.monotonic() - began)
        return ToolResult(text, success=code == 0, stop=stop)

    def _report(self, told: str, output: Excerpt, code: int, seconds: float) -> str:
        if not self._freeform:
            return structured_report(told, exit_code=code, seconds=seconds)
        lines = None if output.fits(self._policy) else output.lines
        return freeform_report(told, exit_code=code, seconds=seconds, lines=lines)


async def _started(context: ToolContext, wish: Wish, bounds: Bounds) -> Session:
    spec = ProcessSpec(
        argv=wish.command.argv,
        cwd=Path(wish.command.cwd),
        bounds=bounds,
        env=wish.env,
        thread=context.thread,
    )
    process = await context.executor.start(spec)
    return Session(process, Keeper(context.kept))


def shell(policy: TruncationPolicy) -> ShellTool:
    """Runs an argument vector."""

    def read(call: ToolCall, cwd: Path) -> Wish:
        asked = read_arguments(call.name, call.arguments, _Shell)
        if not asked.command:
            raise BadArguments(f"invalid arguments for {call.name}: `command` is empty")
        return asked.wish(asked.command, cwd)

    spec = FunctionTool(
        name="shell",
        description="Runs a program with arguments and returns its output. For shell syntax "
        'use ["bash", "-lc", "…"]. Set workdir instead of using cd.',
        parameters=parameters(
            {
                "command": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "The program and its arguments.",
                },
                **_COMMON,
            },
            required=("command",),
        ),
    )
    return ShellTool(spec, read, policy=policy)


def shell_command(policy: TruncationPolicy, *, shell: str) -> ShellTool:
    """Runs a script in the user's shell."""

    def read(call: ToolCall, cwd: Path) -> Wish:
        asked = read_arguments(call.name, call.arguments, _ShellCommand)
        return asked.wish((shell, "-lc" if asked.login else "-c", asked.command), cwd)

    spec = FunctionTool(
        name="shell_command",
        description="Runs a command line in the user's shell and returns its output. "
        "Set workdir instead of using cd.",
        parameters=parameters(
            {
                "command": {"type": "string", "description": "The command line to run."},
                "login": {
                    "type": "boolean",
                    "description": "Whether the shell reads login files; true by default.",
                },
                **_COMMON,
            },
            required=("command",),
        ),
    )
    return ShellTool(spec, read, policy=policy, freeform=True)


def local_shell(policy: TruncationPolicy) -> ShellTool:
    """Runs what the provider's own shell tool asks for."""

    def read(call: ToolCall, cwd: Path) -> Wish:
        asked = read_arguments(call.name, call.arguments, _LocalShell)
        if not asked.command:
            raise BadArguments(f"invalid arguments for {call.name}: `command` is empty")
        return Wish(
            command=Command(asked.command, str(cwd / (asked.working_directory or ""))),
            timeout_ms=asked.timeout_ms or _DEFAULT_TIMEOUT,
            env=asked.env or {},
        )

    return ShellTool(LocalShellTool(), read, policy=policy)
