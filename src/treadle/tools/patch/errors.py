"""What can be wrong with a patch.

PatchError
├── InvalidPatch         the text is no patch; `.line` says where, counted from 1
├── ImplicitPatch        a patch was sent where a command was expected
└── PatchFailed          the patch is valid but cannot be applied; `.path` says to what
    ├── PatchRefused     it would write where it may not
    ├── PatchStale       a file changed between planning and writing
    └── UndoFailed       writing failed half-way and could not be undone

The fixed phrases are part of the format: models were trained to act on them.
Invariant: after any of these but `UndoFailed`, no file has changed.
"""

from __future__ import annotations

from pathlib import Path

from ...core.errors import TreadleError

__all__ = [
    "ImplicitPatch",
    "InvalidPatch",
    "PatchError",
    "PatchFailed",
    "PatchRefused",
    "PatchStale",
    "UndoFailed",
    "system_reason",
]


class PatchError(TreadleError):
    """A patch that was not applied."""

    @property
    def report(self) -> str:
        """Return the text that a model reads as the tool's result."""
        return f"apply_patch verification failed: {self}"


class InvalidPatch(PatchError):
    """The text does not follow the grammar."""

    def __init__(self, detail: str, line: int | None = None) -> None:
        self.detail, self.line = detail, line
        where = "invalid patch: " if line is None else f"invalid hunk at line {line}, "
        super().__init__(where + detail)


class ImplicitPatch(PatchError):
    """A bare patch was sent as a command."""

    def __init__(self) -> None:
        super().__init__(
            "patch detected without explicit call to apply_patch. "
            'Rerun as ["apply_patch", "<patch>"]'
        )


class PatchFailed(PatchError):
    """A valid patch does not fit the files it names."""

    def __init__(self, detail: str, path: Path | None = None) -> None:
        self.detail, self.path = detail, path
        super().__init__(detail)


class PatchRefused(PatchFailed):
    """The patch would write outside of what the caller allows."""

    def __init__(self, path: Path, place: Path) -> None:
        self.place = place
        leads = f"{path} leads to {place}, which" if place != path else f"{path}"
        super().__init__(
            f"{leads} must not be written; patch files inside the writable roots", path
        )


class PatchStale(PatchFailed):
    """Somebody else wrote a file after the patch was planned."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} changed while the patch was being applied and nothing was written; "
            "read the file again and send a new patch",
            path,
        )


class UndoFailed(PatchFailed):
    """Writing failed, and so did restoring: `.left` lists what is not as it was."""

    def __init__(self, cause: str, left: tuple[Path, ...]) -> None:
        self.left = left
        listed = ", ".join(map(str, left))
        super().__init__(
            f"{cause}; undoing failed for {listed}: "
            "check them, old contents are beside them in .treadle-patch-* files",
            left[0],
        )


def system_reason(error: OSError) -> str:
    """Return why the system refused, in the form that models know."""
    return f"{error.strerror or error} (os error {error.errno})" if error.errno else str(error)
