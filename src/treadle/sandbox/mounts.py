"""Mounts: a boundary in the words of bubblewrap.

Owns the order of mounts. Invariant: parents come before children, what hides or
protects is a mount of its own, and every directory on the way to one is too, so
that none of them can be renamed out of the way.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..core.errors import SandboxUnavailable
from .boundary import Boundary, Rule
from .placeholders import is_placeholder

__all__ = ["mount_arguments"]

_RESOLVER = Path("/etc/resolv.conf")


def mount_arguments(boundary: Boundary, *, proc: bool) -> list[str]:
    """What bubblewrap is told about the file system.

    Raises `SandboxUnavailable` for a protected path that no mount can protect.
    """
    top, *rules = (rule for rule in boundary.rules if rule.access != "hidden" or rule.path.exists())
    hidden = [rule.path for rule in rules if rule.access == "hidden" and rule.path.is_dir()]
    return [
        *("--bind" if top.access == "write" else "--ro-bind", "/", "/"),
        *("--dev", "/dev"),
        *(("--proc", "/proc") if proc else ("--tmpfs", "/proc")),
        *_placed(boundary, rules),
        *(_resolver(hidden) if boundary.network else ()),
        *_closed(hidden),
    ]


def _placed(boundary: Boundary, rules: Iterable[Rule]) -> Iterator[str]:
    """One mount for each rule, after one for each directory on the way to it."""
    done: set[Path] = set()
    for rule in rules:
        for path in (*_on_the_way(boundary, rule.path), rule.path):
            if path not in done and os.path.lexists(path):
                done.add(path)
                yield from _mount(boundary, path)


def _on_the_way(boundary: Boundary, path: Path) -> list[Path]:
    """Directories between a writable root and `path`, the upper ones first."""
    root = boundary.enclosing_root(path)
    if root is None:
        return []
    return [each for each in reversed(path.parents) if each != root and each.is_relative_to(root)]


def _mount(boundary: Boundary, path: Path) -> Iterator[str]:
    if path.is_symlink():
        raise SandboxUnavailable(
            f"{str(path)!r} is a symbolic link, and a link in a writable directory cannot be "
            "protected; replace it by what it points to, or use the sandbox mode 'read-only'"
        )
    match boundary.access(path):
        case "hidden" if path.is_dir():
            yield from ("--perms", "0111", "--tmpfs", str(path))
        case "hidden":
            yield from ("--ro-bind", "/dev/null", str(path))
        case "write" if not is_placeholder(path):
            yield from ("--bind", str(path), str(path))
        case _:
            yield from ("--ro-bind", str(path), str(path))


def _closed(directories: Iterable[Path]) -> Iterator[str]:
    """Made read-only last, because deeper mounts need their mount points in them."""
    for directory in directories:
        yield from ("--remount-ro", str(directory))


def _resolver(hidden: Iterable[Path]) -> Iterator[str]:
    """The resolver's file often lies among the sockets; names cannot be looked up without it."""
    resolver = Path(os.path.realpath(_RESOLVER))
    if any(resolver.is_relative_to(each) for each in hidden):
        yield from ("--ro-bind-try", str(resolver), str(resolver))
