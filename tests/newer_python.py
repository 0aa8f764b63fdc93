"""A newer Python than the oldest that Treadle runs on, for programs that need one.

Invariant: what is found runs; a program of pyenv's that stands for no version is passed over.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

__all__ = ["find_newer_python"]


def find_newer_python() -> str | None:
    """Return the newest Python from 3.12 on; pyenv may have some that are on no search path."""
    for name in ("python3.14", "python3.13", "python3.12"):
        for found in _places(name):
            if not subprocess.run([found, "-c", ""], check=False, capture_output=True).returncode:
                return found
    return None


def _places(name: str) -> Iterator[str]:
    if (found := shutil.which(name)) is not None:
        yield found
    for home in sorted(Path.home().glob(f".pyenv/versions/{name.removeprefix('python')}*/bin")):
        yield str(home / name)
