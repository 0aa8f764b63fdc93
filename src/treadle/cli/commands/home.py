"""`treadle home`: where threads and settings live, and moving them to the new name."""

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
    """Where threads and settings live.

    A home that was written under the former name of this program is used as it is while
    there is no new one; `treadle home migrate` moves it.
    """
    del as_json


@command.command("path", epilog=examples("treadle home path", "treadle home path --json"))
@as_json
@click.pass_obj
def path(home: Home, as_json: bool) -> None:
    """Print the directory in use; it need not be there yet."""
    place = home.path
    if as_json:
        say_json({"home": str(place), "exists": place.is_dir(), "former": home.is_former})
    else:
        say(str(place))


@command.command(
    "migrate", epilog=examples("treadle home migrate", "treadle home migrate --dry-run --json")
)
@click.option("--dry-run", is_flag=True, help="Say what would be moved, and change nothing.")
@as_json
@click.pass_obj
def migrate(home: Home, dry_run: bool, as_json: bool) -> None:
    """Move a home of the former name to the new place.

    The new place is the user's data directory, or what --home names. Nothing is moved while
    somebody works in the old home, nor into a directory that is not empty. When it breaks
    off, the home is whole in one of the two places.
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
        say(f"{VARIABLE} is not needed any more; unset it")
