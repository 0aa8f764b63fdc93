"""`treadle trust`: trust the configuration and the hooks of a project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...config import load_config
from ...config.config_file import find_project_file
from ...config.trusted_files import TrustStore
from ...core.errors import NotFound
from ...hooks.configured_hooks import project_hooks
from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..output import printable, say, say_json

if TYPE_CHECKING:
    from ...hooks.configured_hooks import ProjectHook

__all__ = ["command"]


@click.command(
    "trust",
    epilog=examples("treadle trust", "treadle trust --show", "treadle trust ../other --remove"),
)
@click.argument(
    "directory",
    required=False,
    default=Path(),
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option("--remove", is_flag=True, help="Remove the trust.")
@click.option("--show", is_flag=True, help="Print what is trusted, and change nothing.")
@as_json
@click.pass_obj
def command(home: Home, directory: Path, remove: bool, show: bool, as_json: bool) -> None:
    """Trust the `.treadle/config.toml` of a project, and its hooks.

    Read the file and its scripts first: its hooks run with your rights, and it can weaken the
    sandbox. You trust the file and the hooks as they are now. When one of them changes, you
    must trust it again.
    """
    if remove and show:
        raise click.UsageError("--remove and --show exclude each other; leave one out")
    place = directory.absolute()
    file = find_project_file(place)
    if file is None:
        raise NotFound("configuration of the project", str(place), "it has no .treadle/config.toml")
    trust, hooks = TrustStore(home.path), () if remove else _hooks(home, place)
    if remove:
        trust.distrust(file)
    elif not show:
        trust.trust(file)
        for hook in hooks:
            hook.trust(trust)
    _tell(file, hooks, trust, as_json=as_json)


def _hooks(home: Home, place: Path) -> tuple[ProjectHook, ...]:
    """Return the hooks of the project. Raises `ConfigError`."""
    return project_hooks(load_config(home.path, place, {}, trusting=True))


def _tell(file: Path, hooks: tuple[ProjectHook, ...], trust: TrustStore, *, as_json: bool) -> None:
    trusted = trust.is_trusted(file)
    if as_json:
        told = [
            {
                "name": hook.name,
                "event": hook.settings.event,
                "command": hook.settings.command,
                "files": [str(path) for path in hook.sources],
                "trusted": trusted and hook.is_trusted(trust),
            }
            for hook in hooks
        ]
        say_json({"file": str(file), "trusted": trusted, "hooks": told})
        return
    say(f"{'trusted' if trusted else 'not trusted'}: {file}")
    for hook in hooks:
        state = "runs" if trusted and hook.is_trusted(trust) else "does not run"
        words = " ".join(hook.settings.command)
        say(f"  hook {printable(hook.name)} {state}: {hook.settings.event}, {printable(words)}")
