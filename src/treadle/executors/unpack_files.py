"""Unpacks the files of a workspace; runs where they go, as a program of its own.

Owns what may be made of an archive that nobody trusts. Needs Python's own library, and git for a
history. Invariants: nothing is written outside of an empty directory, whatever names and links the
archive has; no program of the repository runs; what fails leaves nothing behind.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from typing import IO, Any

__all__ = ["PARTS", "main"]

PARTS = ".treadle-move"
GIT = (
    *("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"),
    *("-c", "transfer.fsckObjects=true", "-c", "protocol.allow=never"),
    *("-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"),
)
QUIET = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
}


class UnpackRefused(Exception):
    """The archive is not what it should be."""


class NotEmpty(UnpackRefused):
    """There is something already, which stays."""


class PartsReader(io.RawIOBase):
    """The pieces of the archive, read as one."""

    def __init__(self, place: str) -> None:
        count = len(os.listdir(place))
        self._names = [os.path.join(place, str(number)) for number in range(count)]
        self._file: Any = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._file is None:
                if not self._names:
                    return 0
                self._file = open(self._names.pop(0), "rb")  # noqa: SIM115
            read: int = self._file.readinto(buffer)
            if read:
                return read
            self._file.close()
            self._file = None


def git(place: str, *arguments: str) -> None:
    """Run git; its failure is ours."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    done = subprocess.run(  # noqa: S603 - git
        [*GIT, "-C", place, *arguments],
        env={**environ, **QUIET},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise UnpackRefused(f"git {arguments[0]} failed: {said[-1] if said else done.returncode}")


def parts_of(name: str) -> list[str]:
    """Return the parts of a name; one that leads out, or into git's own files, is refused."""
    parts = name.split("/")
    for part in parts:
        plain = part.casefold().rstrip(". ")
        if part in ("", ".", "..") or plain == ".git" or "\0" in part or part == PARTS:
            raise UnpackRefused(f"the name {name!r} is refused")
    return parts


def open_parent(root: int, parts: list[str]) -> int:
    """Open the directory of a file, made where it is not there; no link is followed."""
    at = os.dup(root)
    for part in parts[:-1]:
        try:
            os.mkdir(part, 0o755, dir_fd=at)
        except FileExistsError:
            pass
        try:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
        except OSError as error:
            raise UnpackRefused(f"{part!r} is no directory: {error.strerror}") from error
        finally:
            os.close(at)
        at = below
    return at


def remove(name: str, at: int) -> None:
    """Remove what stands in a file's place."""
    try:
        found = os.lstat(name, dir_fd=at)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode):
        raise UnpackRefused(f"{name!r} is a directory and a file")
    os.unlink(name, dir_fd=at)


def write_file(root: int, name: str, data: IO[bytes], *, executable: bool) -> None:
    """Write one file."""
    parts = parts_of(name)
    at = open_parent(root, parts)
    try:
        remove(parts[-1], at)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        mode = 0o755 if executable else 0o644
        with open(os.open(parts[-1], flags, mode, dir_fd=at), "wb") as file:
            shutil.copyfileobj(data, file)
    finally:
        os.close(at)


def make_link(root: int, name: str, target: str) -> None:
    """Make a link that stays inside."""
    parts = parts_of(name)
    reached = os.path.normpath(os.path.join(os.path.dirname(name), target))
    if os.path.isabs(target) or reached.split(os.sep)[0] == os.pardir:
        raise UnpackRefused(f"the link {name!r} leads out, to {target!r}")
    at = open_parent(root, parts)
    try:
        remove(parts[-1], at)
        os.symlink(target, parts[-1], dir_fd=at)
    finally:
        os.close(at)


def restore_history(place: str, bundle: str, head: dict[str, Any]) -> None:
    """Make the repository of the bundle, with the commit and the branch checked out."""
    branch, commit = str(head.get("branch") or ""), str(head.get("commit") or "")
    if not (len(commit) in (40, 64) and all(each in "0123456789abcdef" for each in commit)):
        raise UnpackRefused("the archive names no commit")
    git(place, "init", "-q")
    specs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", "+HEAD:refs/treadle/moved")
    git(place, "fetch", "-q", "--update-head-ok", bundle, *specs)
    if branch:
        git(place, "check-ref-format", "--branch", branch)
        git(place, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
    else:
        git(place, "update-ref", "--no-deref", "HEAD", commit)
    git(place, "reset", "-q", "--hard", commit)
    git(place, "update-ref", "-d", "refs/treadle/moved")


def unpack(place: str) -> dict[str, Any]:
    """Unpack what lies in the parts; return what was made."""
    parts = os.path.join(place, PARTS)
    if sorted(os.listdir(place)) != [PARTS]:
        raise NotEmpty(f"{place!r} is not empty; move to an empty directory")
    root = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with PartsReader(parts) as data, tarfile.open(fileobj=data, mode="r|") as archive:
            head, links, files = unpack_members(archive, root, place)
        for name in head.get("deleted") or ():
            gone = parts_of(str(name))
            at = open_parent(root, gone)
            try:
                remove(gone[-1], at)
            finally:
                os.close(at)
        # Last, so that nothing is written through one of them.
        for name, target in links:
            make_link(root, name, target)
    finally:
        os.close(root)
    shutil.rmtree(parts)
    return {"files": files, "links": len(links), "commit": head.get("commit") or ""}


def unpack_members(
    archive: tarfile.TarFile, root: int, place: str
) -> tuple[dict[str, Any], list[tuple[str, str]], int]:
    """Write history and files; return the head, the links that are to be made, and a count."""
    links: list[tuple[str, str]] = []
    head: dict[str, Any] = {}
    files = 0
    for member in archive:
        data = archive.extractfile(member) if member.isreg() else None
        if member.name == "head.json" and data is not None:
            head = json.loads(data.read(1 << 24))
        elif member.name == "bundle" and data is not None:
            bundle = os.path.join(place, PARTS, "bundle")
            with open(bundle, "wb") as file:
                shutil.copyfileobj(data, file)
            restore_history(place, bundle, head)
        elif not member.name.startswith("files/"):
            raise UnpackRefused(f"the archive has {member.name!r}, which nobody knows")
        elif data is not None:
            write_file(root, member.name[6:], data, executable=bool(member.mode & 0o100))
            files += 1
        elif member.issym():
            links.append((member.name[6:], member.linkname))
        else:
            raise UnpackRefused(f"{member.name!r} is no file and no link")
    return head, links, files


def clean(place: str, names: list[str]) -> None:
    """Remove what was made."""
    for name in names:
        path = os.path.join(place, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)


def main(place: str) -> None:
    """Unpack, or leave the directory empty."""
    try:
        told = unpack(place)
    except (UnpackRefused, OSError, ValueError, tarfile.TarError, TypeError) as error:
        clean(place, [PARTS] if isinstance(error, NotEmpty) else os.listdir(place))
        sys.exit(f"the files were not unpacked: {error}")
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
