"""`shell`, `shell_command` and `local_shell`: commands that end within the call.

Owns the older forms of running commands, for models that were trained on them. Invariant:
when a call returns, its command has ended, by itself or by its time limit.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Literal

from msgspec import Struct

from ..core.text import TruncationPolicy
from ..sandbox.approvals import Command
from ..sandbox.environment_variables import refusal_of_variables
from .apply_patch import PatchOutcome
from .arguments import InvalidArguments, parse_arguments
from .command_session import run_command, start_session
from .contract import ToolCall, ToolContext, ToolResult
from .executor import Bounds
from .permission import ask_to_run_outside, escalation, was_stopped_by_sandbox
from .tool_output import Excerpt, freeform_report, shape_output, structured_report

__all__ = ["ShellTools"]

_DEFAULT_TIMEOUT = 10_000
_TIMED_OUT = 124


class _ShellRequest(Struct, frozen=True, kw_only=True):
    """What a model wants to run, whichever tool it used."""

    command: Command
    timeout_ms: int = _DEFAULT_TIMEOUT
    freeform: bool = False
    """Whether the result is plain text; else it is JSON."""


class _CommonArguments(Struct, forbid_unknown_fields=True, kw_only=True):
    workdir: str | None = None
    timeout_ms: int | None = None
    sandbox_permissions: Literal["use_default", "require_escalated"] = "use_default"
    justification: str = ""

    def request(
        self, argv: tuple[str, ...], cwd: Path, shell: str, *, freeform: bool
    ) -> _ShellRequest:
        """Return the request to run `argv`; `shell` is the one that is configured."""
        return _ShellRequest(
            command=Command(
                argv,
                str(cwd / (self.workdir or "")),
                escalation(self.sandbox_permissions, self.justification, ()),
                shell,
            ),
            timeout_ms=self.timeout_ms or _DEFAULT_TIMEOUT,
            freeform=freeform,
        )


class _ShellArguments(_CommonArguments, forbid_unknown_fields=True, kw_only=True):
    command: tuple[str, ...]


class _ShellCommandArguments(_CommonArguments, forbid_unknown_fields=True, kw_only=True):
    command: str
    login: bool = True


class _LocalShellArguments(Struct, kw_only=True):
    command: tuple[str, ...]
    timeout_ms: int | None = None
    working_directory: str | None = None
    env: dict[str, str] | None = None


class ShellTools:
    """The code of the three tools; `shell` runs scripts, `policy` bounds the output."""

    def __init__(self, shell: str, policy: TruncationPolicy) -> None:
        self._shell, self._policy = shell, policy

    async def shell(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run a program with arguments."""
        try:
            arguments = parse_arguments(call.name, call.arguments, _ShellArguments)
            _check_command(call.name, arguments.command)
        except InvalidArguments as error:
            return ToolResult(str(error), success=False)
        request = arguments.request(arguments.command, context.cwd, self._shell, freeform=False)
        return await self._run_request(call, context, request)

    async def shell_command(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run a script in the user's shell."""
        try:
            arguments = parse_arguments(call.name, call.arguments, _ShellCommandArguments)
        except InvalidArguments as error:
            return ToolResult(str(error), success=False)
        argv = (self._shell, "-lc" if arguments.login else "-c", arguments.command)
        request = arguments.request(argv, context.cwd, self._shell, freeform=True)
        return await self._run_request(call, context, request)

    async def local_shell(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run what the provider's own shell tool asks for."""
        try:
            arguments = parse_arguments(call.name, call.arguments, _LocalShellArguments)
            _check_command(call.name, arguments.command)
            argv = _with_variables(call.name, arguments.env or {}, arguments.command)
        except InvalidArguments as error:
            return ToolResult(str(error), success=False)
        cwd = str(context.cwd / (arguments.working_directory or ""))
        request = _ShellRequest(
            command=Command(argv, cwd, shell=self._shell),
            timeout_ms=arguments.timeout_ms or _DEFAULT_TIMEOUT,
        )
        return await self._run_request(call, context, request)

    async def _run_request(
        self, call: ToolCall, context: ToolContext, request: _ShellRequest
    ) -> ToolResult:
        def report_patch(outcome: PatchOutcome) -> str:
            if not outcome.success:
                return outcome.text
            report = freeform_report if request.freeform else structured_report
            return report(outcome.text, exit_code=0, seconds=outcome.seconds)

        return await run_command(
            call,
            context,
            request.command,
            run=lambda bounds: self._run(call, context, request, bounds),
            report_patch=report_patch,
        )

    async def _run(
        self, call: ToolCall, context: ToolContext, request: _ShellRequest, bounds: Bounds
    ) -> ToolResult:
        began = time.monotonic()
        session = await start_session(context, request.command, bounds)
        try:
            with session.show_progress(call, context):
                await session.wait(max(request.timeout_ms, 0) / 1000)
        finally:
            timed_out = not session.has_ended
            await asyncio.shield(session.kill())
        output, code, stop = session.take_output(), session.exit_code, False
        if not timed_out and was_stopped_by_sandbox(code, output.text, bounds, context):
            again = await ask_to_run_outside(request.command, context)
            if isinstance(again, Bounds):
                return await self._run(call, context, request, again)
            stop = again.stop
        code = _TIMED_OUT if timed_out or code is None else code
        text = await shape_output(output, self._policy, session.writer, heading=False)
        if timed_out:
            text = f"command timed out after {request.timeout_ms} milliseconds\n{text}"
        report = self._report(request, text, output, code, time.monotonic() - began)
        return ToolResult(report, success=code == 0, stop=stop)

    def _report(
        self, request: _ShellRequest, text: str, output: Excerpt, code: int, seconds: float
    ) -> str:
        if not request.freeform:
            return structured_report(text, exit_code=code, seconds=seconds)
        lines = None if output.fits(self._policy) else output.lines
        return freeform_report(text, exit_code=code, seconds=seconds, lines=lines)


def _with_variables(name: str, env: dict[str, str], command: tuple[str, ...]) -> tuple[str, ...]:
    """Return `command` with variables that a model chose as a part of it.

    As such they are set within the sandbox, shown to whoever is asked, and judged: a program
    that only reads may do anything with a variable.
    """
    reason = refusal_of_variables(env)
    if reason:
        raise InvalidArguments(f"invalid arguments for {name}: {reason}")
    return ("env", *(f"{key}={value}" for key, value in env.items()), *command) if env else command


def _check_command(name: str, command: tuple[str, ...]) -> None:
    if not command:
        raise InvalidArguments(f"invalid arguments for {name}: `command` is empty")
