"""`treadle patch`: apply a patch from standard input."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ...tools.patch import plan_diffs, plan_patch
from ...tools.patch.parser import LONGEST_PATCH
from ...tools.patch.patch_plan import PatchPlan
from ..command_options import as_json
from ..lazy_group import examples
from ..output import say, say_json

__all__ = ["command"]


@click.command(
    "patch",
    epilog=examples("treadle patch < change.patch", "treadle patch --check -C src < change.patch"),
)
@click.option("--check", is_flag=True, help="Print the changes, and write nothing.")
@click.option(
    "-C",
    "directory",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="The directory of the paths in the patch  [default: the current one]",
)
@as_json
def command(check: bool, directory: Path, as_json: bool) -> None:
    """Apply a patch from standard input, in the format of the apply_patch tool.

    The patch is applied completely or not at all: exit code 1 means that no file was changed.
    It changes no file outside DIR.
    """
    if sys.stdin.isatty():
        raise click.UsageError("there is no patch; send one on standard input")
    # One byte too many is enough for the parser to refuse it.
    text = sys.stdin.buffer.read(4 * LONGEST_PATCH + 1).decode(errors="surrogateescape")
    plan = plan_patch(text, directory)
    _check_places(plan, directory.resolve())
    if not check:
        plan.apply()
    if as_json:
        say_json({"applied": not check, "files": plan_diffs(plan)})
    elif check:
        say("".join(diff.text for diff in plan_diffs(plan)).removesuffix("\n"))
    else:
        say(plan.summary.removesuffix("\n"))


def _check_places(plan: PatchPlan, directory: Path) -> None:
    """Refuse a patch that leads out of its directory, also by a link."""
    for change in plan.changes:
        for name in filter(None, (change.path, change.move_to)):
            if not (directory / name).resolve().is_relative_to(directory):
                raise click.ClickException(
                    f"{name!r} is not in {str(directory)!r}; nothing was changed: "
                    "name the directory of the patch with -C"
                )
