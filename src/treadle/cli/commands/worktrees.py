"""`treadle worktrees`: the git worktrees in which agents and chats have worked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...workspace.worktrees import open_worktrees
from ..cli_home import Home
from ..command_options import as_json, cwd_option, runs
from ..lazy_group import examples
from ..output import Column, say, say_json, table

if TYPE_CHECKING:
    from ...workspace.worktrees import Worktree, WorktreeState

__all__ = ["command"]

_COLUMNS = (
    Column("NAME"),
    Column("BRANCH"),
    Column("HOLDS"),
    Column("DIRECTORY", gives=True),
)


@click.group(
    "worktrees",
    invoke_without_command=True,
    epilog=examples("treadle worktrees", "treadle worktrees remove fix-login"),
)
@cwd_option
@as_json
@click.pass_context
def command(ctx: click.Context, cwd: Path | None, as_json: bool) -> None:
    """List the git worktrees in which agents and chats have worked.

    `treadle exec --worktree` makes them, and agents that have `worktree: true`. They are in
    `.treadle/worktrees/` of the repository, on branches called `treadle/NAME`.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_, cwd=cwd, as_json=as_json)


@command.command("list", epilog=examples("treadle worktrees list --json"))
@cwd_option
@as_json
@runs
async def list_(home: Home, *, cwd: Path | None, as_json: bool) -> None:
    """List worktrees, and what each holds that nothing else does."""
    async with open_worktrees(home.path, (cwd or Path()).absolute()) as worktrees:
        found = [(each, await worktrees.state(each)) for each in await worktrees.list_worktrees()]
    if as_json:
        say_json([_json(each, state) for each, state in found])
    elif found:
        table(
            _COLUMNS,
            [(each.name, each.branch, state.summary, str(each.path)) for each, state in found],
        )
    else:
        say("no worktrees; `treadle exec --worktree PROMPT` works in one")


@command.command("remove", epilog=examples("treadle worktrees remove fix-login --force"))
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Remove what was not committed or merged too.")
@cwd_option
@as_json
@runs
async def remove(
    home: Home, *, names: tuple[str, ...], force: bool, cwd: Path | None, as_json: bool
) -> None:
    """Remove worktrees with their branches.

    One with changes that are not committed, or with commits that no other branch has, stays,
    unless --force is given.
    """
    removed = []
    async with open_worktrees(home.path, (cwd or Path()).absolute()) as worktrees:
        found = [await worktrees.find_one(name) for name in names]
        for each in found:
            removed.append((each, await worktrees.remove(each, force=force)))
            if not as_json:
                say(f"removed {each.name}, with {removed[-1][1].summary}")
    if as_json:
        say_json([_json(each, state) for each, state in removed])


def _json(worktree: Worktree, state: WorktreeState) -> dict[str, object]:
    return {
        "name": worktree.name,
        "branch": worktree.branch,
        "path": str(worktree.path),
        "files": state.files,
        "commits": state.commits,
    }
