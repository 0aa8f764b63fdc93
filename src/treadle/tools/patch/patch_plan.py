"""What a patch would do, computed in memory; then done in one go; and shown as diffs.

Owns the order of checks and the text of their failures. Invariant: a plan exists only when
every hunk fits, so a patch that cannot be applied whole changes nothing. Diffs are for display
only.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from .errors import PatchFailed, PatchRefused, system_reason
from .file_edits import Edit, Files, LocalFiles, digest
from .parser import AddFile, DeleteFile, Hunk, Patch, UpdateFile, parse_patch
from .update import TextLines, decode, encode, printable, update_text

__all__ = [
    "MOST_HELD",
    "Allowed",
    "ChangedFile",
    "FileDiff",
    "PatchPlan",
    "apply_patch",
    "file_diff",
    "plan_diffs",
    "plan_patch",
]

MOST_HELD = 128 << 20
"""Bytes of files that one patch may change, move, overwrite or delete, taken together."""

Allowed: TypeAlias = Callable[[Path], bool]
"""Decides whether a real place (absolute, no symbolic links) may be written."""

_WIDE = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")


class ChangedFile(Struct, frozen=True, kw_only=True):
    """One file before and after; paths are spelled as in the patch."""

    kind: Literal["add", "update", "delete"]
    path: str
    move_to: str | None = None
    before: bytes | None
    """None where nothing was; what an added file overwrites counts."""
    after: bytes | None
    overwritten: bytes | None = None
    """What stood where the file was moved to."""


class PatchPlan(Struct, frozen=True):
    """The whole outcome of a patch, before anything is written."""

    changes: tuple[ChangedFile, ...]
    edits: tuple[Edit, ...]

    @property
    def summary(self) -> str:
        """Return the text that a model reads when the plan was carried out."""
        letters = (("A", "add"), ("M", "update"), ("D", "delete"))
        lines = [
            f"{letter} {printable(change.move_to or change.path)}\n"
            for letter, kind in letters
            for change in self.changes
            if change.kind == kind
        ]
        return "Success. Updated the following files:\n" + "".join(lines)

    def apply(self, files: Files | None = None) -> str:
        """Write everything and return the summary. Raises `PatchFailed`; then nothing changed."""
        (files or LocalFiles()).replace(self.edits)
        return self.summary


class FileDiff(Struct, frozen=True):
    """One file's change as people read it."""

    kind: Literal["add", "update", "delete"]
    path: str
    move_to: str | None
    added: int
    removed: int
    text: str
    """A unified diff; empty when only the name or a line ending changed."""


def plan_patch(
    patch: Patch | str,
    cwd: Path,
    *,
    files: Files | None = None,
    allowed: Allowed | None = None,
) -> PatchPlan:
    """Return what `patch` does in `cwd`, without writing.

    Raises `InvalidPatch` when the text is no patch, `PatchFailed` when it does not fit,
    `PatchRefused` when it would write a place that `allowed` denies.
    """
    parsed = parse_patch(patch) if isinstance(patch, str) else patch
    if not parsed.hunks:
        raise PatchFailed("No files were modified.")
    planner = _Planner(cwd.absolute(), files or LocalFiles(), allowed)
    changes = tuple(map(planner.change, parsed.hunks))
    return PatchPlan(changes, tuple(planner.edits.values()))


def apply_patch(
    patch: Patch | str,
    cwd: Path,
    *,
    files: Files | None = None,
    allowed: Allowed | None = None,
) -> PatchPlan:
    """Plan `patch` and carry it out. Raises `PatchError`; then nothing changed."""
    plan = plan_patch(patch, cwd, files=files, allowed=allowed)
    plan.apply(files)
    return plan


@dataclass(slots=True)
class _Planner:
    """Collects the edits of one patch, at most one for each place."""

    cwd: Path
    files: Files
    allowed: Allowed | None
    edits: dict[Path, Edit] = field(default_factory=dict)
    held: int = 0
    """Bytes of old files that are kept until all is written."""

    def change(self, hunk: Hunk) -> ChangedFile:
        match hunk:
            case AddFile():
                return self._add(hunk)
            case DeleteFile():
                return self._delete(hunk)
            case UpdateFile():
                return self._update(hunk)

    def _add(self, hunk: AddFile) -> ChangedFile:
        path = self.cwd / hunk.path
        place = self._locate(path)
        before = self._read(path, place, f"Failed to write file {path}")
        after = self._encode(hunk.content, path)
        self._add_edit(path, place, before, after)
        return ChangedFile(kind="add", path=hunk.path, before=before, after=after)

    def _delete(self, hunk: DeleteFile) -> ChangedFile:
        path = self.cwd / hunk.path
        failure = f"Failed to read {path}"
        before = self._read_existing(path, self._locate(path, follow=True), failure)
        self._add_edit(path, self._locate(path, follow=False), before, None)
        return ChangedFile(kind="delete", path=hunk.path, before=before, after=None)

    def _update(self, hunk: UpdateFile) -> ChangedFile:
        path = self.cwd / hunk.path
        place = self._locate(path)
        before = self._read_existing(path, place, f"Failed to read file to update {path}")
        if before.startswith(_WIDE):
            raise PatchFailed(f"{path} is UTF-16 or UTF-32; convert it to UTF-8 first", path)
        after = self._encode(update_text(decode(before), hunk.chunks, path), path)
        target = place if hunk.move_to is None else self._locate(self.cwd / hunk.move_to)
        overwritten = None
        if target == place:
            self._add_edit(path, place, before, after)
        else:
            overwritten = self._move(hunk, target, before, after)
        return ChangedFile(
            kind="update",
            path=hunk.path,
            move_to=hunk.move_to,
            before=before,
            after=after,
            overwritten=overwritten,
        )

    def _move(self, hunk: UpdateFile, target: Path, before: bytes, after: bytes) -> bytes | None:
        path, move_to = self.cwd / hunk.path, self.cwd / (hunk.move_to or "")
        overwritten = self._read(move_to, target, f"Failed to write file {move_to}")
        self._add_edit(move_to, target, overwritten, after, like=self._locate(path))
        self._add_edit(path, self._locate(path, follow=False), before, None)
        return overwritten

    def _add_edit(
        self,
        path: Path,
        place: Path,
        before: bytes | None,
        data: bytes | None,
        like: Path | None = None,
    ) -> None:
        if place in self.edits:
            raise PatchFailed(f"multiple operations target {path}", path)
        known = None if before is None else digest(before)
        self.edits[place] = Edit(place=place, data=data, before=known, like=like)

    def _locate(self, path: Path, *, follow: bool = True) -> Path:
        try:
            place = self.files.locate(path, follow=follow)
            refused = self.allowed is not None and not self.allowed(place)
        except OSError as error:
            raise PatchFailed(f"Failed to find {path}: {system_reason(error)}", path) from error
        except ValueError as error:
            raise PatchFailed(f"{str(path)!r} is no path: {error}", path) from error
        if refused:
            raise PatchRefused(path, place)
        return place

    def _read(self, path: Path, place: Path, failure: str) -> bytes | None:
        try:
            data = self.files.read(place)
        except OSError as error:
            raise PatchFailed(f"{failure}: {system_reason(error)}", path) from error
        self.held += len(data or b"")
        if self.held > MOST_HELD:
            raise PatchFailed(f"the patch changes more than {MOST_HELD:,} bytes; send several")
        return data

    def _read_existing(self, path: Path, place: Path, failure: str) -> bytes:
        data = self._read(path, place, failure)
        if data is None:
            raise PatchFailed(f"{failure}: No such file or directory (os error 2)", path)
        return data

    def _encode(self, text: str, path: Path) -> bytes:
        try:
            return encode(text)
        except UnicodeEncodeError as error:
            raise PatchFailed(
                f"the new text of {path} has half a character ({error.object[error.start]!r}); "
                "write the whole one",
                path,
            ) from error


def plan_diffs(plan: PatchPlan) -> tuple[FileDiff, ...]:
    """Return the diffs of all files, in the order of the patch."""
    return tuple(map(file_diff, plan.changes))


def file_diff(change: ChangedFile, context: int = 3) -> FileDiff:
    """Return the diff of one file with `context` lines around each change."""
    path, move_to = printable(change.path), change.move_to and printable(change.move_to)
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
    return [] if data is None else list(TextLines.read(data.decode(errors="replace")).texts)
