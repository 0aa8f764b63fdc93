"""`apply_patch`: patches that models send, as a call or as a shell command.

Owns asking before a patch is applied. Invariants: a patch that leaves the writable roots is
applied only after the user said yes, and then whole or not at all; a shell command that is a
patch never reaches a shell, where there is no `apply_patch`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from ..core.items import FunctionCall
from ..sandbox.approvals import Command
from ..sandbox.verdict import judge_patch
from .arguments import InvalidArguments, parse_arguments
from .contract import ToolCall, ToolContext, ToolResult
from .executor import Bounds
from .patch.command import find_patch
from .patch.errors import ImplicitPatch, PatchError, PatchRefused
from .patch.parser import Patch, UpdateFile, parse_patch
from .permission import Rejected, obtain_bounds
from .tool_output import freeform_report

__all__ = ["PatchOutcome", "apply_freeform_patch", "apply_function_patch", "intercept_patch"]


class _Arguments(Struct, forbid_unknown_fields=True):
    input: str


class PatchOutcome(Struct, frozen=True, kw_only=True):
    """What became of a patch."""

    text: str
    seconds: float = 0.0
    success: bool = True
    stop: bool = False


async def apply_freeform_patch(call: ToolCall, context: ToolContext) -> ToolResult:
    """Apply the patch of a call whose arguments are the patch itself.

    A model that calls the tool as a function, with an argument, means the same.
    """
    if isinstance(call.item, FunctionCall) and call.arguments.lstrip().startswith("{"):
        return await apply_function_patch(call, context)
    return await _apply_for_call(call.arguments, context)


async def apply_function_patch(call: ToolCall, context: ToolContext) -> ToolResult:
    """Apply the patch of a call that has it as an argument."""
    try:
        arguments = parse_arguments(call.name, call.arguments, _Arguments)
    except InvalidArguments as error:
        return ToolResult(str(error), success=False)
    return await _apply_for_call(arguments.input, context)


async def _apply_for_call(text: str, context: ToolContext) -> ToolResult:
    outcome = await _ask_and_apply(text, context.cwd, context)
    output = outcome.text
    if outcome.success:
        output = freeform_report(output, exit_code=0, seconds=outcome.seconds)
    return ToolResult(output, outcome.success, outcome.stop)


async def intercept_patch(command: Command, context: ToolContext) -> PatchOutcome | None:
    """Apply the patch that `command` is; return None when it is something else."""
    try:
        found = find_patch(command.argv)
    except ImplicitPatch as error:
        return PatchOutcome(text=error.report, success=False)
    if found is None:
        return None
    return await _ask_and_apply(found.patch, Path(command.cwd) / (found.workdir or ""), context)


async def _ask_and_apply(text: str, cwd: Path, context: ToolContext) -> PatchOutcome:
    """Apply the patch in `text`; ask the user where that is needed."""
    began = time.monotonic()
    try:
        report = await _apply(text, _paths(parse_patch(text)), cwd, context)
    except PatchError as error:
        return PatchOutcome(text=error.report, success=False)
    except OSError as error:
        return PatchOutcome(text=f"apply_patch failed: {error}", success=False)
    if isinstance(report, Rejected):
        reason = f"patch {report.reason}" if report.by_user else report.reason
        return PatchOutcome(text=reason, success=False, stop=report.stop)
    return PatchOutcome(text=report, seconds=time.monotonic() - began)


async def _apply(
    text: str, paths: Sequence[str], cwd: Path, context: ToolContext
) -> str | Rejected:
    bounds = await _ask(paths, context, writable=True)
    if isinstance(bounds, Rejected):
        return bounds
    try:
        return await context.executor.patch(text, cwd=cwd, bounds=bounds)
    except PatchRefused:
        # Only the executor knows its disk, so here it shows whether the roots are left.
        wider = await _ask(paths, context, writable=False)
    if isinstance(wider, Rejected):
        return wider
    return await context.executor.patch(text, cwd=cwd, bounds=wider)


async def _ask(paths: Sequence[str], context: ToolContext, *, writable: bool) -> Bounds | Rejected:
    verdict = judge_patch(
        paths=paths,
        writable=writable,
        approval=context.approval,
        confined=context.policy.mode != "danger-full-access",
    )
    return await obtain_bounds(verdict, context)


def _paths(patch: Patch) -> list[str]:
    moves = [hunk.move_to for hunk in patch.hunks if isinstance(hunk, UpdateFile) and hunk.move_to]
    return [*(hunk.path for hunk in patch.hunks), *moves]
