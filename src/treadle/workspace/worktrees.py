"""Git worktrees: directories of their own for agents and chats that work at the same time.

Owns `.treadle/worktrees/` of a repository and the branches `treadle/NAME`. Invariants: git runs
in the sandbox and runs no program of the repository; nothing that was not committed, and no
commit that no other branch has, is removed unless that is forced.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from ..core.errors import InvalidOption, NotFound, WorktreeRefused
from ..tools.executor import ToolExecutor
from ..tools.local.local_executor import LocalExecutor
from .sandboxed_git import SandboxedGit

__all__ = ["Worktree", "WorktreeState", "Worktrees", "open_worktrees", "worktree_name"]

PREFIX = "treadle/"
_PLACE = (".treadle", "worktrees")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.|lock\Z|\Z)){0,63}")


class Worktree(Struct, frozen=True):
    """A worktree of ours."""

    name: str
    path: Path
    branch: str
    made: bool = False
    """Whether it was made just now."""


class WorktreeState(Struct, frozen=True):
    """What a worktree holds that nothing else does."""

    files: tuple[str, ...]
    """Files that were changed, or are new, since its last commit."""
    commits: int
    """Commits that no other branch, tag or remote has."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be lost with it."""
        return not self.files and not self.commits

    @property
    def summary(self) -> str:
        """Say what it holds, in a few words."""
        if self.is_empty:
            return "nothing has changed"
        files = f"{len(self.files)} changed file{'s' * (len(self.files) != 1)}" * bool(self.files)
        commits = f"{self.commits} commit{'s' * (self.commits != 1)}" * bool(self.commits)
        return " and ".join(filter(None, (files, commits)))


def worktree_name(text: str) -> str:
    """Return a name made of words; empty if none of them can be one."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:40].strip("-")


@asynccontextmanager
async def open_worktrees(home: Path, cwd: Path) -> AsyncIterator[Worktrees]:
    """Open the worktrees of the repository around `cwd`.

    Raises `NotFound` outside a repository, `WorktreeRefused` where it cannot have any.
    """
    executor = LocalExecutor(home=home)
    try:
        yield await Worktrees.find(executor, cwd)
    finally:
        await executor.close()


class Worktrees(Struct, frozen=True):
    """The worktrees of one repository."""

    executor: ToolExecutor
    top: Path
    """The directory of the repository's files; below it they are made."""
    repository: Path
    """Git's own directory, which all worktrees share."""

    @classmethod
    async def find(cls, executor: ToolExecutor, cwd: Path) -> Worktrees:
        """Return those of the repository around `cwd`."""
        git = SandboxedGit(executor, cwd)
        common = await git.ask("rev-parse", "--path-format=absolute", "--git-common-dir")
        if common is None:
            hint = "worktrees need one; `git init` makes it, -C names another directory"
            raise NotFound("git repository", str(cwd), hint)
        (first, bare), *_ = await _read_worktrees(git)
        if bare:
            inside = await git.ask("rev-parse", "--show-toplevel")
            if inside is None:
                raise WorktreeRefused(
                    f"{str(cwd)!r} is a bare repository, in which nobody can work; "
                    "start in a worktree of it, or name one with -C"
                )
            first = Path(inside.rstrip("\n"))
        return cls(executor, first, Path(common.rstrip("\n")))

    @property
    def place(self) -> Path:
        """The directory of the worktrees."""
        return self.top.joinpath(*_PLACE)

    async def open(self, name: str) -> Worktree:
        """Return the worktree called `name`; it is made where there is none.

        It begins at the last commit, or at its branch where that is left from before.
        """
        if not _NAME.fullmatch(name):
            raise InvalidOption(
                f"{name!r} is no name for a worktree; use letters, digits, '.', '-' and '_'"
                + (f", such as {made!r}" if (made := worktree_name(name)) else "")
            )
        worktree = Worktree(name, self.place / name, f"{PREFIX}{name}")
        if any(each.path == worktree.path for each in await self.list_worktrees()):
            return worktree
        git = SandboxedGit(self.executor, self.top)
        if await git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}") is None:
            raise WorktreeRefused(
                f"the repository in {str(self.top)!r} has no commit yet; make a first one, "
                "so that a worktree has something to begin with"
            )
        await asyncio.to_thread(self._make_place)
        known = await git.ask("rev-parse", "--verify", "--quiet", f"refs/heads/{worktree.branch}")
        start = (
            (str(worktree.path), worktree.branch)
            if known
            else ("-b", worktree.branch, str(worktree.path), "HEAD")
        )
        await self._do("worktree", "prune")
        await self._do("worktree", "add", "--quiet", *start)
        return Worktree(name, worktree.path, worktree.branch, made=True)

    async def fresh_name(self, text: str) -> str:
        """Return a name that no worktree and no branch has, made of the words of `text`."""
        git = SandboxedGit(self.executor, self.top)
        told = await git.ask("for-each-ref", "--format=%(refname)", f"refs/heads/{PREFIX}")
        taken = {line.removeprefix(f"refs/heads/{PREFIX}") for line in (told or "").splitlines()}
        taken |= {each.name for each in await self.list_worktrees()}
        name = worktree_name(text) or "work"
        numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
        return next(each for each in (name, *numbered) if each not in taken)

    async def list_worktrees(self) -> tuple[Worktree, ...]:
        """Return the worktrees of ours that are there, by name."""
        rows = await _read_worktrees(SandboxedGit(self.executor, self.top))
        ours = [path for path, _ in rows if path.parent == self.place and path.is_dir()]
        return tuple(Worktree(each.name, each, f"{PREFIX}{each.name}") for each in sorted(ours))

    async def find_one(self, name: str) -> Worktree:
        """Return the worktree called `name`. Raises `NotFound`."""
        for each in await self.list_worktrees():
            if each.name == name:
                return each
        raise NotFound("worktree", name, "`treadle worktrees` lists them")

    async def count_uncommitted(self) -> int:
        """Return how many files of the directory itself a new worktree would lack."""
        return len(await _changed_files(SandboxedGit(self.executor, self.top)))

    async def state(self, worktree: Worktree) -> WorktreeState:
        """Return what a worktree holds that nothing else does."""
        git = SandboxedGit(self.executor, worktree.path)
        branch = f"refs/heads/{worktree.branch}"
        known = await git.ask("rev-parse", "--verify", "--quiet", branch)
        count = await git.ask(
            *("rev-list", "--count", "HEAD", *((branch,) if known else ()), "--not"),
            *(f"--exclude={worktree.branch}", "--branches", "--remotes", "--tags"),
        )
        if count is None:
            raise WorktreeRefused(f"git cannot read the worktree {str(worktree.path)!r}; check it")
        return WorktreeState(await _changed_files(git), int(count))

    async def remove(self, worktree: Worktree, *, force: bool = False) -> WorktreeState:
        """Remove a worktree and its branch; return what it held.

        Raises `WorktreeRefused` if something would be lost, unless it is forced.
        """
        state = await self.state(worktree)
        if not state.is_empty and not force:
            raise WorktreeRefused(
                f"the worktree {worktree.name!r} has {state.summary}, which would be lost; commit "
                f"and merge {worktree.branch!r} first, or remove it with --force"
            )
        await self._do("worktree", "remove", "--force", str(worktree.path))
        git = SandboxedGit(self.executor, self.top)
        if await git.ask("rev-parse", "--verify", "--quiet", f"refs/heads/{worktree.branch}"):
            await self._do("branch", "--quiet", "-D", worktree.branch)
        return state

    async def _do(self, *arguments: str) -> None:
        git = SandboxedGit(self.executor, self.top)
        await git.do(*arguments, place=self.place, repository=self.repository)

    def _make_place(self) -> None:
        """Make the directory; git ignores all that is in it."""
        path = self.top
        for part in _PLACE:
            path /= part
            if path.is_symlink():
                raise WorktreeRefused(f"{str(path)!r} is a link; remove it")
            path.mkdir(exist_ok=True)
        ignore = path / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")


async def _read_worktrees(git: SandboxedGit) -> list[tuple[Path, bool]]:
    """Return every worktree that git knows, the main one first, and whether it is bare."""
    told = await git.ask("worktree", "list", "--porcelain", "-z") or ""
    found = []
    for block in filter(None, told.split("\0\0")):
        lines = block.strip("\0").split("\0")
        path = lines[0].removeprefix("worktree ")
        found.append((Path(path), "bare" in lines[1:]))
    if not found:
        raise WorktreeRefused("git lists no worktrees; it has to be version 2.36 or newer")
    return found


async def _changed_files(git: SandboxedGit) -> tuple[str, ...]:
    """Return the files that differ from the last commit, new ones too."""
    told = await git.ask("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
    return tuple(line[3:] for line in (told or "").split("\0") if line)
