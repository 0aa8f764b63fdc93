"""Interception: patches that a model sent as a shell command.

Owns noticing them. Invariant: such a command never reaches a shell, where there is
no `apply_patch`; it is applied as the patch it is, under the rules for patches.
"""

from __future__ import annotations

from pathlib import Path

from ..sandbox.approvals import Command
from .contract import ToolContext
from .patching import Patched, patched

__all__ = ["intercepted"]


async def intercepted(command: Command, context: ToolContext) -> Patched | None:
    """What became of the patch in `command`; None when there is none."""
    from .patch.command import find_patch
    from .patch.errors import ImplicitPatch

    try:
        found = find_patch(command.argv)
    except ImplicitPatch as error:
        return Patched(text=error.told, success=False)
    if found is None:
        return None
    return await patched(found.patch, Path(command.cwd) / (found.workdir or ""), context)
