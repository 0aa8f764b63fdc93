"""What a patch changed, for people.

Owns the unified diff of a `FileChange` and its counts. Invariant: display only;
nothing is ever applied from here.
"""

from __future__ import annotations

import difflib
from typing import Literal

from msgspec import Struct

from .document import Document, shown
from .plan import FileChange, PatchPlan

__all__ = ["FileDiff", "file_diff", "plan_diffs"]


class FileDiff(Struct, frozen=True):
    """One file's change as people read it."""

    kind: Literal["add", "update", "delete"]
    path: str
    move_to: str | None
    added: int
    removed: int
    text: str
    """A unified diff; empty when only the name or a line ending changed."""


def plan_diffs(plan: PatchPlan) -> tuple[FileDiff, ...]:
    """The diffs of all files, in the order of the patch."""
    return tuple(map(file_diff, plan.changes))


def file_diff(change: FileChange, context: int = 3) -> FileDiff:
    """The diff of one file with `context` lines around each change."""
    path, move_to = shown(change.path), change.move_to and shown(change.move_to)
    old, new = _lines(change.before), _lines(change.after)
    hunks = list(
        difflib.unified_diff(
            old,
            new,
            fromfile="/dev/null" if change.before is None else f"a/{path}",
            tofile="/dev/null" if change.after is None else f"b/{move_to or path}",
            n=context,
            lineterm="",
        )
    )
    body = hunks[2:]
    return FileDiff(
        kind=change.kind,
        path=path,
        move_to=move_to,
        added=sum(line.startswith("+") for line in body),
        removed=sum(line.startswith("-") for line in body),
        text="".join(f"{line}\n" for line in hunks),
    )


def _lines(data: bytes | None) -> list[str]:
    return [] if data is None else list(Document.read(data.decode(errors="replace")).texts)
