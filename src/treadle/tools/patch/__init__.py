"""`apply_patch`: one text that adds, changes, moves and deletes files, whole or not at all.

`parse_patch` reads it, `plan_patch` works out the outcome, `PatchPlan.apply` writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .command import PatchCommand, find_patch
    from .errors import (
        ImplicitPatch,
        InvalidPatch,
        PatchError,
        PatchFailed,
        PatchRefused,
        PatchStale,
        UndoFailed,
    )
    from .file_edits import Edit, Files, LocalFiles
    from .parser import (
        AddFile,
        ChangeLine,
        Chunk,
        DeleteFile,
        Hunk,
        Patch,
        PatchParser,
        UpdateFile,
        parse_patch,
    )
    from .patch_plan import (
        Allowed,
        ChangedFile,
        FileDiff,
        PatchPlan,
        apply_patch,
        file_diff,
        plan_diffs,
        plan_patch,
    )

__all__ = [
    "AddFile",
    "Allowed",
    "ChangeLine",
    "ChangedFile",
    "Chunk",
    "DeleteFile",
    "Edit",
    "FileDiff",
    "Files",
    "Hunk",
    "ImplicitPatch",
    "InvalidPatch",
    "LocalFiles",
    "Patch",
    "PatchCommand",
    "PatchError",
    "PatchFailed",
    "PatchParser",
    "PatchPlan",
    "PatchRefused",
    "PatchStale",
    "UndoFailed",
    "UpdateFile",
    "apply_patch",
    "file_diff",
    "find_patch",
    "parse_patch",
    "plan_diffs",
    "plan_patch",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "command": "PatchCommand find_patch",
        "errors": "ImplicitPatch InvalidPatch PatchError PatchFailed PatchRefused PatchStale "
        "UndoFailed",
        "file_edits": "Edit Files LocalFiles",
        "parser": "AddFile ChangeLine Chunk DeleteFile Hunk Patch PatchParser UpdateFile "
        "parse_patch",
        "patch_plan": "Allowed ChangedFile FileDiff PatchPlan apply_patch file_diff plan_diffs "
        "plan_patch",
    },
)
