"""`treadle trust`: trust the configuration and the hooks of a project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...config import load_config
from ...config.config_file import find_project_file
from ...config.layers import host_of
from ...config.trusted_files import TrustStore
from ...core.errors import NotFound
from ...core.redact import redact
from ...hooks.configured_hooks import project_hooks
from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..output import printable, say, say_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...config import Config
    from ...hooks.configured_hooks import ReadHook

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

    Read the file and its scripts first: its hooks run with your rights, and it can send your
    keys elsewhere and weaken the sandbox; the output points such settings out. You trust the
    file and the hooks as they are now. When one of them changes, you must trust it again.
    """
    if remove and show:
        raise click.UsageError("--remove and --show exclude each other; leave one out")
    place = directory.absolute()
    file = find_project_file(place)
    if file is None:
        raise NotFound("configuration of the project", str(place), "it has no .treadle/config.toml")
    trust = TrustStore(home.path)
    config = None if remove else load_config(home.path, place, {}, trusting=True)
    hooks = () if config is None else tuple(hook.read() for hook in project_hooks(config))
    if remove:
        trust.distrust(file)
    elif not show:
        trust.trust(file)
        for hook in hooks:
            if not hook.problem:
                hook.of.trust(trust, hook.digest)
    notes = () if config is None else tuple(_notes(config))
    _tell(file, hooks, notes, trust, as_json=as_json)


def _notes(config: Config) -> Iterator[str]:
    """What in the project's file deserves a second look: where keys go, and what is let loose."""
    values = {
        key: value
        for layer in config.layers
        if layer.kind == "project"
        for key, value in layer.values.items()
    }
    for key, value in values.items():
        match key:
            case ("providers", name, "base_url"):
                yield f"the key of the provider {name!r} goes to {redact(str(value))}"
            case ("providers", name, "key_variable"):
                yield f"the provider {name!r} is sent the variable {value!r}"
            case ("channels", name, "url"):
                yield f"replies to the channel {name!r} go to {host_of(str(value))}"
            case ("sandbox",) if value == "danger-full-access":
                yield "commands run without a sandbox"
            case ("network",) if value:
                yield f"commands reach the network: {value!r}"
            case ("approval",) if value == "never":
                yield "nobody is asked before a command runs"
            case ("writable_roots",) if value:
                yield f"commands can also write {', '.join(map(repr, value))}"
            case ("codex", "binary"):
                yield f"turns are run by the program {str(value)!r}"


def _tell(
    file: Path,
    hooks: tuple[ReadHook, ...],
    notes: tuple[str, ...],
    trust: TrustStore,
    *,
    as_json: bool,
) -> None:
    trusted = trust.is_trusted(file)
    if as_json:
        told = [_hook_json(hook, trusted=trusted and hook.is_trusted(trust)) for hook in hooks]
        say_json({"file": str(file), "trusted": trusted, "notes": notes, "hooks": told})
        return
    say(f"{'trusted' if trusted else 'not trusted'}: {file}")
    for note in notes:
        say(f"  look at this: {printable(note)}")
    for hook in hooks:
        state = "runs" if trusted and hook.is_trusted(trust) else "does not run"
        words = " ".join(hook.of.settings.command)
        why = f" ({hook.problem})" if hook.problem else ""
        line = f"{hook.of.name} {state}: {hook.of.settings.event}, {words}{why}"
        say(f"  hook {printable(line)}")


def _hook_json(hook: ReadHook, *, trusted: bool) -> dict[str, object]:
    return {
        "name": hook.of.name,
        "event": hook.of.settings.event,
        "command": hook.of.settings.command,
        "files": [str(path) for path in hook.of.sources],
        "trusted": trusted,
        "problem": hook.problem or None,
    }
