"""`treadle home`: show the home directory, and move one that has the former name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from ...core.former_name import VARIABLE, find_home, forget_telling
from ...core.home import new_home_path
from ...store.move_home import move_home, plan_move
from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..output import say, say_json

if TYPE_CHECKING:
    from ...store.move_home import Move

__all__ = ["command"]


@click.group("home", epilog=examples("treadle home path", "treadle home migrate --dry-run"))
@as_json
def command(as_json: bool) -> None:
    """Show the home directory, which contains threads and settings.

    When there is no new home, Treadle uses a home of the program's former name as it is.
    `treadle home migrate` moves that home.
    """
    del as_json


@command.command("path", epilog=examples("treadle home path", "treadle home path --json"))
@as_json
@click.pass_obj
def path(home: Home, as_json: bool) -> None:
    """Print the home directory, even when it does not exist yet."""
    place = home.path
    if as_json:
        say_json({"home": str(place), "exists": place.is_dir(), "former": home.is_former})
    else:
        say(str(place))


@command.command(
    "migrate", epilog=examples("treadle home migrate", "treadle home migrate --dry-run --json")
)
@click.option("--dry-run", is_flag=True, help="Print what would be moved, and change nothing.")
@as_json
@click.pass_obj
def migrate(home: Home, dry_run: bool, as_json: bool) -> None:
    """Move a home of the former name to the new place.

    The new place is the user's data directory, or the directory of --home. The command moves
    nothing while a process uses the old home, and nothing into a directory that is not
    empty. After an interruption, one of the two places has the complete home.
    """
    source = find_home(os.environ)
    target = new_home_path() if home.given is None else home.given.expanduser().absolute()
    move = None
    if source is not None and source != target:
        move = plan_move(source, target) if dry_run else move_home(source, target)
    moved = move is not None and not dry_run
    if moved:
        forget_telling(target)
    if as_json:
        say_json({"moved": moved, "home": str(target if moved else home.path), "move": move})
    else:
        _tell(move, moved=moved)


def _tell(move: Move | None, *, moved: bool) -> None:
    if move is None:
        say("there is no home of the former name; nothing was moved")
        return
    done, copied = "moved" if moved else "would move", ", by copying" * (move.way == "copy")
    size = f"{move.files:,} files, {move.size:,} bytes{copied}"
    say(f"{done} {move.source} to {move.target} ({size})")
    if moved and os.environ.get(VARIABLE):
        say(f"{VARIABLE} is no longer needed; unset it")
