"""Packs the files of a workspace; runs where they are, as a program of its own.

Owns what travels: the history as a git bundle, changed and untracked files, and the names of
deleted ones. Needs Python's own library and git. Invariants: it writes nothing there; no link is
followed; what is left behind is named.
"""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import tarfile

__all__ = ["MOST_FILES", "main"]

MOST_FILES = 200_000
NAMED = 20
GIT = (
    *("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "safe.directory=*"),
)


def git(place: str, *arguments: str) -> bytes | None:
    """Return what git prints; None where it fails, or is not there."""
    try:
        done = subprocess.run(  # noqa: S603 - git
            [*GIT, "-C", place, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def names_of(data: bytes | None) -> list[str]:
    """Return the names in a list of git's."""
    return [os.fsdecode(each) for each in (data or b"").split(b"\0") if each]


class Tree:
    """What a workspace has to carry."""

    def __init__(self, place: str) -> None:
        self.place = os.path.realpath(place)
        self.notes: list[str] = []
        self.branch = self.commit = ""
        self.deleted: list[str] = []
        self.ignored: list[str] = []
        self.bundle = b""
        top = git(self.place, "rev-parse", "--show-toplevel")
        if top is None:
            self.names = self._walk()
        elif os.path.realpath(os.fsdecode(top.rstrip(b"\n"))) != self.place or not self._history():
            self.names = names_of(self._list("-c", "-o", "--exclude-standard"))
            self._look_at_ignored()
        else:
            self.names = names_of(self._list("-m", "-o", "--exclude-standard"))
            self.deleted = names_of(self._list("-d"))
            gone = set(self.deleted)
            self.names = [each for each in self.names if each not in gone]
            self._look_at_ignored()
        self.names = sorted(set(self.names))
        if len(self.names) > MOST_FILES:
            sys.exit(f"there are {len(self.names)} files, and {MOST_FILES} may travel")
        self.files = [each for each in self.names if self._travels(each)]
        self.size = sum(os.lstat(self._path(each)).st_size for each in self.files)

    def report(self) -> dict[str, object]:
        """Return what would travel, and what would stay."""
        return {
            "git": bool(self.bundle),
            "branch": self.branch,
            "commit": self.commit,
            "history_bytes": len(self.bundle),
            "files": len(self.files),
            "file_bytes": self.size,
            "deleted": len(self.deleted),
            "ignored": [printable_name(each) for each in self.ignored[:NAMED]],
            "ignored_count": len(self.ignored),
            "notes": self.notes[:NAMED],
        }

    def write(self, target: io.RawIOBase) -> None:
        """Write the archive."""
        head = {"branch": self.branch, "commit": self.commit, "deleted": self.deleted}
        with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            add_bytes(archive, "head.json", json.dumps(head).encode())
            if self.bundle:
                add_bytes(archive, "bundle", self.bundle)
            for name in self.files:
                archive.add(self._path(name), arcname=f"files/{name}", recursive=False)

    def _history(self) -> bool:
        commit = git(self.place, "rev-parse", "--verify", "-q", "HEAD")
        bundle = git(self.place, "bundle", "create", "-q", "-", "HEAD", "--branches", "--tags")
        if commit is None or bundle is None:
            self.notes.append("the repository has no commit; its files travel without it")
            return False
        self.commit, self.bundle = commit.decode().strip(), bundle
        branch = git(self.place, "symbolic-ref", "--short", "-q", "HEAD")
        self.branch = branch.decode().strip() if branch else ""
        if os.path.lexists(self._path(".gitmodules")):
            self.notes.append("submodules stay behind")
        self.notes.append("remotes, stashes, hooks and the settings of the repository stay behind")
        return True

    def _list(self, *flags: str) -> bytes | None:
        return git(self.place, "ls-files", "-z", *flags, "--", ".")

    def _look_at_ignored(self) -> None:
        self.ignored = names_of(self._list("-o", "-i", "--exclude-standard", "--directory"))

    def _walk(self) -> list[str]:
        found: list[str] = []
        for directory, below, files in os.walk(self.place):
            links = [each for each in below if os.path.islink(os.path.join(directory, each))]
            for each in (*files, *links):
                found.append(os.path.relpath(os.path.join(directory, each), self.place))
            if len(found) > MOST_FILES:
                break
        return found

    def _path(self, name: str) -> str:
        return os.path.join(self.place, name)

    def _travels(self, name: str) -> bool:
        try:
            mode = os.lstat(self._path(name)).st_mode
        except OSError:
            return False
        if stat.S_ISLNK(mode):
            target = os.path.join(os.path.dirname(name), os.readlink(self._path(name)))
            if os.path.isabs(target) or os.path.normpath(target).split(os.sep)[0] == os.pardir:
                self.notes.append(f"the link {printable_name(name)!r} leads out and stays behind")
                return False
            return True
        if not stat.S_ISREG(mode):
            self.notes.append(f"{printable_name(name)!r} is no file and stays behind")
            return False
        if not os.access(self._path(name), os.R_OK):
            self.notes.append(f"{printable_name(name)!r} cannot be read and stays behind")
            return False
        return True


def printable_name(name: str) -> str:
    """Return a name that can be printed."""
    return os.fsencode(name).decode(errors="replace")[:200]


def add_bytes(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a member that is no file."""
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def main(place: str, verb: str) -> None:
    """Print the report, or write the archive to standard output."""
    tree = Tree(place)
    if verb == "report":
        sys.stdout.write(json.dumps(tree.report()))
    else:
        tree.write(sys.stdout.buffer)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(*sys.argv[1:])
