"""`apply_patch`: one text that adds, changes, moves and deletes files, whole or not at all.

`parse_patch` reads it, `plan_patch` works out the outcome, `PatchPlan.apply` writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .command import PatchCommand, find_patch
    from .diff import FileDiff, file_diff, plan_diffs
    from .errors import (
        ImplicitPatch,
        InvalidPatch,
        PatchError,
        PatchFailed,
        PatchRefused,
        PatchStale,
        UndoFailed,
    )
    from .files import Edit, Files
    from .hunks import AddFile, ChangeLine, Chunk, DeleteFile, Hunk, Patch, UpdateFile
    from .local import LocalFiles
    from .parser import PatchParser, parse_patch
    from .plan import Allowed, FileChange, PatchPlan, apply_patch, plan_patch

__all__ = [
    "AddFile",
    "Allowed",
    "ChangeLine",
    "Chunk",
    "DeleteFile",
    "Edit",
    "FileChange",
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
        "diff": "FileDiff file_diff plan_diffs",
        "errors": "ImplicitPatch InvalidPatch PatchError PatchFailed PatchRefused PatchStale "
        "UndoFailed",
        "files": "Edit Files",
        "hunks": "AddFile ChangeLine Chunk DeleteFile Hunk Patch UpdateFile",
        "local": "LocalFiles",
        "parser": "PatchParser parse_patch",
        "plan": "Allowed FileChange PatchPlan apply_patch plan_patch",
    },
)
