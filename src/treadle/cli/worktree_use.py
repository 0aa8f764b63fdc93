"""`--worktree`: a run in a git worktree of its own, from its making to what is left of it.

Invariant: a worktree that this run made and that holds nothing is removed again; everything
else stays, and is told with its branch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from ..core.errors import TreadleError
from ..workspace.worktrees import open_worktrees
from .cli_home import Home
from .output import printable
from .run_options import RunOptions

if TYPE_CHECKING:
    from ..workspace.worktrees import Worktree, Worktrees

__all__ = ["use_worktree"]

_MOST_NAMED = 5


@asynccontextmanager
async def use_worktree(
    home: Home, options: RunOptions, name: str, text: str | None
) -> AsyncIterator[RunOptions]:
    """Yield the options of a run in the worktree called `name`.

    An empty name is made of the words of `text`.
    """
    cwd = (options.cwd or Path()).absolute()
    async with open_worktrees(home.path, cwd) as worktrees:
        worktree = await worktrees.open(name or await worktrees.fresh_name(text or ""))
        lacks = await worktrees.count_uncommitted() if worktree.made else 0
    missing = f"; it lacks what is not committed ({lacks})" if lacks else ""
    _tell(f"working in {worktree.path}, on the branch {worktree.branch}{missing}")
    try:
        yield msgspec.structs.replace(options, place=worktree.path)
    finally:
        with suppress(TreadleError):  # what went wrong before is told, not this
            async with open_worktrees(home.path, cwd) as worktrees:
                await _settle(worktrees, worktree)


async def _settle(worktrees: Worktrees, worktree: Worktree) -> None:
    state = await worktrees.state(worktree)
    if not state.is_empty:
        names = ", ".join(state.files[:_MOST_NAMED])
        more = ", …" if len(state.files) > _MOST_NAMED else ""
        named = f" ({names}{more})" if names else ""
        _tell(f"the branch {worktree.branch} in {worktree.path} has {state.summary}{named}")
    elif worktree.made:
        await worktrees.remove(worktree)
        _tell(f"nothing has changed in the worktree {worktree.name}; it was removed")


def _tell(line: str) -> None:
    click.echo(printable(f"treadle: {line}"), err=True)
