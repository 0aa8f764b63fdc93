"""Directory trees as values, for tests that compare them whole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

Tree = dict[str, bytes | str | None]
"""Files as bytes, links as text, directories as None."""


def plant(root: Path, tree: Mapping[str, bytes | str | None]) -> None:
    for name, content in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir()
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)


def tree(root: Path) -> Tree:
    found: Tree = {}
    for directory, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = Path(directory, name)
            key = str(path.relative_to(root))
            if path.is_symlink():
                found[key] = str(path.readlink())
            else:
                found[key] = None if path.is_dir() else path.read_bytes()
    return found


def leaves(root: Path) -> Tree:
    """The tree without directories that hold something."""
    full = tree(root)
    return {
        name: content
        for name, content in full.items()
        if content is not None or not any(other.startswith(f"{name}/") for other in full)
    }


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch", ""))
