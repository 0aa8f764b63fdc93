"""`apply_patch`: a patch as a tool, and as part of other tools.

Owns asking before a patch is applied. Invariant: a patch that leaves the writable
roots is applied only after the user said so, and then whole or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ..core.specs import CustomTool, FunctionTool
from ..models.profile import ApplyPatch
from ..sandbox.approvals import decide_patch
from .arguments import BadArguments, read_arguments
from .contract import ToolCall, ToolContext, ToolResult
from .executor import Bounds
from .patch.specs import freeform_spec, function_spec
from .permission import Rejected, settled

if TYPE_CHECKING:
    from .patch.hunks import Patch

__all__ = ["PatchTool", "Patched", "patched"]


class _Input(Struct, forbid_unknown_fields=True):
    input: str


class Patched(Struct, frozen=True, kw_only=True):
    """What became of a patch."""

    text: str
    seconds: float = 0.0
    success: bool = True
    stop: bool = False

    def result(self, text: str) -> ToolResult:
        """The result of a call, with `text` around the patch's own."""
        return ToolResult(text, self.success, self.stop)


class PatchTool:
    """Applies patches, in the form a model writes them best."""

    parallel = False

    def __init__(self, form: ApplyPatch) -> None:
        self.spec: CustomTool | FunctionTool
        self.spec = freeform_spec() if form == "freeform" else function_spec()

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Apply the patch."""
        from .reporting import freeform_report

        text = call.arguments
        if isinstance(self.spec, FunctionTool):
            try:
                text = read_arguments(call.name, text, _Input).input
            except BadArguments as error:
                return ToolResult(str(error), success=False)
        done = await patched(text, context.cwd, context)
        if not done.success:
            return done.result(done.text)
        return done.result(freeform_report(done.text, exit_code=0, seconds=done.seconds))


async def patched(text: str, cwd: Path, context: ToolContext) -> Patched:
    """Apply the patch in `text`, asking where that is called for."""
    from .patch.errors import PatchError
    from .patch.parser import parse_patch

    began = time.monotonic()
    try:
        told = await _applied(text, _paths(parse_patch(text)), cwd, context)
    except PatchError as error:
        return Patched(text=error.told, success=False)
    except OSError as error:
        return Patched(text=f"apply_patch failed: {error}", success=False)
    if isinstance(told, Rejected):
        reason = f"patch {told.reason}" if told.by_user else told.reason
        return Patched(text=reason, success=False, stop=told.stop)
    return Patched(text=told, seconds=time.monotonic() - began)


async def _applied(
    text: str, paths: Sequence[str], cwd: Path, context: ToolContext
) -> str | Rejected:
    from .patch.errors import PatchRefused

    bounds = await _allowed(paths, context, writable=True)
    if isinstance(bounds, Rejected):
        return bounds
    try:
        return await context.executor.patch(text, cwd=cwd, bounds=bounds)
    except PatchRefused:
        # Only the executor knows its disk, so whether the roots are left shows here.
        wider = await _allowed(paths, context, writable=False)
    if isinstance(wider, Rejected):
        return wider
    return await context.executor.patch(text, cwd=cwd, bounds=wider)


async def _allowed(
    paths: Sequence[str], context: ToolContext, *, writable: bool
) -> Bounds | Rejected:
    verdict = decide_patch(
        paths=paths,
        writable=writable,
        approval=context.approval,
        confined=context.policy.mode != "danger-full-access",
    )
    return await settled(verdict, context)


def _paths(patch: Patch) -> list[str]:
    from .patch.hunks import UpdateFile

    moves = [hunk.move_to for hunk in patch.hunks if isinstance(hunk, UpdateFile) and hunk.move_to]
    return [*(hunk.path for hunk in patch.hunks), *moves]
