"""`weft trust`: let a project's configuration count."""

from __future__ import annotations

from pathlib import Path

import click

from ...configuration.files import ConfigFile, project_file
from ...configuration.trust import Trust
from ...errors import NotFound
from ..home import Home
from ..lazy import examples
from ..options import as_json
from ..output import say, say_json

__all__ = ["command"]


@click.command("trust", epilog=examples("weft trust", "weft trust ../other --remove"))
@click.argument(
    "directory",
    required=False,
    default=Path(),
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option("--remove", is_flag=True, help="Let it count no longer.")
@as_json
@click.pass_obj
def command(home: Home, directory: Path, remove: bool, as_json: bool) -> None:
    """Let the `.weft/config.toml` of a project count.

    It may name hooks, which run as you, and loosen the sandbox: read it first. The
    trust holds for the file as it is now; once it changes, it has to be given again.
    """
    place = directory.absolute()
    file = project_file(place)
    if file is None:
        raise NotFound("configuration of the project", str(place), "it has no .weft/config.toml")
    trust = Trust(home.path)
    if remove:
        trust.withdraw(file)
    else:
        ConfigFile.read(file)
        trust.give(file)
    if as_json:
        say_json({"file": str(file), "trusted": not remove})
    else:
        say(f"{'no longer trusted' if remove else 'trusted'}: {file}")
