"""Reading: files that Treadle reads itself, on behalf of a model.

Owns the one check that they all pass: of the file that was opened, not of its name.
Invariant: what is hidden from commands is not read for a model either, whatever link leads to
it, and nobody can swap a file between the check and the reading.
"""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

from ..core.files import open_regular, opened_path
from ..core.home import home_path
from .boundary import Boundary, resolve_boundary
from .policy import SandboxPolicy

__all__ = ["open_for_model", "open_readable"]

_POLICY = SandboxPolicy(mode="workspace-write")
"""Whatever a thread's mode is: without a sandbox a repository's links still lead nowhere."""


def open_readable(path: Path, boundary: Boundary) -> io.BufferedReader:
    """Open a regular file that `boundary` lets commands read. Raises `OSError` for others."""
    file = open_regular(path)
    try:
        _check(opened_path(file, path), path, boundary)
    except BaseException:
        file.close()
        raise
    return file


def _check(real: Path, path: Path, boundary: Boundary) -> None:
    if boundary.access(real) == "hidden":
        raise PermissionError(errno.EACCES, "is hidden by the sandbox policy", str(path))


def open_for_model(workspace: Path, home: Path | None, path: Path) -> io.BufferedReader:
    """Open a file for the model of a thread that works in `workspace`. Raises `OSError`.

    `home` is Treadle's; None means the one in use.
    """
    boundary = resolve_boundary(_POLICY, workspace, home=home or home_path(), environ=os.environ)
    return open_readable(path, boundary)
