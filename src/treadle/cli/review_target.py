"""What a review is about: the working tree, a branch, or a commit.

Invariant: a revision reaches a message only as the hexadecimal name that git gave it.
"""

from __future__ import annotations

import re
from pathlib import Path

import click

from ..core.errors import NotFound
from ..prompt.review_message import ReviewTarget
from ..tools.local.local_executor import LocalExecutor
from ..workspace.sandboxed_git import SandboxedGit

__all__ = ["find_target"]

_NAME = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NEW = ("ls-files", "--others", "--exclude-standard", "-z")


async def find_target(
    home: Path, cwd: Path, *, base: str | None, commit: str | None
) -> ReviewTarget:
    """Return the change to review. Raises `NotFound` where there is no such thing.

    Its count of files is zero if nothing has changed.
    """
    executor = LocalExecutor(home=home)
    try:
        git = SandboxedGit(executor, cwd)
        if await git.ask("rev-parse", "--git-dir") is None:
            raise NotFound("git repository", str(cwd), "start it there, or name one with -C")
        if commit is not None:
            return await _commit(git, commit)
        if base is not None:
            return await _branch(git, base)
        return await _tree(git)
    finally:
        await executor.close()


async def _tree(git: SandboxedGit) -> ReviewTarget:
    if await git.ask("rev-parse", "--verify", "--quiet", "HEAD") is None:
        raise NotFound(
            "commit", "HEAD", "make a first commit, so that there is something to compare"
        )
    changed = await git.ask("diff", "--name-only", "-z", "HEAD", "--")
    return ReviewTarget(kind="tree", files=_count(changed) + _count(await git.ask(*_NEW)))


async def _branch(git: SandboxedGit, base: str) -> ReviewTarget:
    began = await _revision(git, base)
    common = (await git.ask("merge-base", began, "HEAD") or "").strip()
    if not _NAME.fullmatch(common):
        raise NotFound("common beginning with", base, "name a branch that this one came from")
    changed = await git.ask("diff", "--name-only", "-z", common, "--")
    files = _count(changed) + _count(await git.ask(*_NEW))
    return ReviewTarget(kind="branch", revision=common, files=files)


async def _commit(git: SandboxedGit, name: str) -> ReviewTarget:
    revision = await _revision(git, name)
    changed = await git.ask("show", "--format=", "--name-only", "-z", revision, "--")
    return ReviewTarget(kind="commit", revision=revision, files=_count(changed))


async def _revision(git: SandboxedGit, name: str) -> str:
    if name.startswith("-"):
        raise click.UsageError(f"{name!r} is no revision; name a branch, a tag or a commit.")
    found = await git.ask("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    if found is None or not _NAME.fullmatch(found.strip()):
        raise NotFound("revision", name, "`git branch` and `git log` list those that exist")
    return found.strip()


def _count(names: str | None) -> int:
    return (names or "").count("\0")
