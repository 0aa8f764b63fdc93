"""`treadle prompts`: the instruction texts of models, Treadle's own and imported ones."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import click
from msgspec import Struct

from ...core.errors import NotFound
from ...models.catalog import Catalog
from ...models.profile import ModelProfile
from ...prompt.codex_import import find_codex, import_prompts
from ...prompt.imported_prompts import ImportedPrompts
from ...prompt.instructions import (
    FAMILIES,
    base_instructions,
    compaction_prompt,
    summary_prefix,
)
from ..cli_home import Home
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..output import Column, printable, say, say_bytes, say_json, table, working

__all__ = ["command"]

_OURS = "treadle"
_COLUMNS = (
    Column("NAME"),
    Column("FROM"),
    Column("BYTES", right=True),
    Column("SHA256"),
    Column("STATE"),
)


class Prompt(Struct, frozen=True):
    """An instruction text that is in use."""

    name: str
    source: str
    size: int
    digest: str
    intact: bool = True


@click.group(
    "prompts",
    invoke_without_command=True,
    epilog=examples("treadle prompts", "treadle prompts import", "treadle prompts show gpt-5.5"),
)
@as_json
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the instruction texts of models, and where each comes from.

    Treadle has its own texts. `treadle prompts import` copies the texts of a locally
    installed Codex, byte for byte, into your home. Use it to send the same prefix as Codex.
    """
    if ctx.invoked_subcommand is not None:
        return
    prompts = _in_force(ctx.obj.path)
    if as_json:
        say_json(prompts)
    else:
        table(_COLUMNS, [_row(prompt) for prompt in prompts])


@command.command(
    "import", epilog=examples("treadle prompts import", "treadle prompts import --codex ./codex")
)
@click.option(
    "--codex",
    type=click.Path(exists=True, dir_okay=False, path_type=Path, resolve_path=True),
    help="The Codex binary  [default: the one on the search path, else the installed extra]",
)
@as_json
@runs
async def import_(home: Home, codex: Path | None, as_json: bool) -> None:
    """Import the texts of a locally installed Codex, byte for byte.

    Codex runs in a private directory and talks only to this process. After the import, new
    threads use these texts; existing threads keep theirs.
    """
    with working("asking Codex", steps=True) as tell:
        binary = find_codex() if codex is None else codex
        report = await import_prompts(binary, home.path, tell)
    if as_json:
        say_json(report)
    else:
        say(f"imported {report.files} texts of {report.version} into {report.directory}")


@command.command(
    "show",
    epilog=examples(
        "treadle prompts show general", "treadle prompts show openai:gpt-5.5 > instructions.md"
    ),
)
@click.argument("name")
@as_json
@click.pass_obj
def show(home: Home, name: str, as_json: bool) -> None:
    """Print one text exactly as it is sent.

    NAME is a name from the list of `treadle prompts`, or a model.
    """
    text, source = _find(home.path, name)
    if as_json:
        prompt = _prompt(name, source, text)
        say_json({"name": name, "source": source, "digest": prompt.digest, "text": text})
    elif sys.stdout.isatty():
        say(text)
    else:
        say_bytes(text.encode())


@command.command("remove", epilog=examples("treadle prompts remove"))
@as_json
@click.pass_obj
def remove(home: Home, as_json: bool) -> None:
    """Remove the imported texts; new threads use Treadle's own again."""
    removed = ImportedPrompts(home.path).remove()
    if as_json:
        say_json({"removed": removed})
    else:
        say("removed the imported texts" if removed else "nothing was imported")


def _in_force(home: Path) -> list[Prompt]:
    manifest = ImportedPrompts(home).manifest()
    source = manifest.version if manifest else _OURS
    families = [_prompt(name, _OURS, _family(name)) for name in FAMILIES]
    kept = {prompt.name: prompt for prompt in ImportedPrompts(home).all()}
    shared = [
        _prompt("compact", source if "compact.md" in kept else _OURS, compaction_prompt(home)),
        _prompt(
            "summary_prefix",
            source if "summary_prefix.md" in kept else _OURS,
            summary_prefix(home),
        ),
    ]
    models = [
        Prompt(Path(name).stem, source, prompt.size, prompt.digest, prompt.intact)
        for name, prompt in kept.items()
        if name.startswith("models/")
    ]
    return [*families, *shared, *models]


def _find(home: Path, name: str) -> tuple[str, str]:
    """Return the text of that name, and its source."""
    if name in FAMILIES:
        return _family(name), _OURS
    manifest = ImportedPrompts(home).manifest()
    source = manifest.version if manifest else _OURS
    shared = {"compact": compaction_prompt, "summary_prefix": summary_prefix}
    if name in shared:
        text = shared[name](home)
        return text, _OURS if text == shared[name]() else source
    profile = Catalog.load(home / "models.toml").profile(name)
    if not profile.known:
        raise NotFound("text", name, "`treadle prompts` lists them; the name of a model works too")
    text = base_instructions(profile, home)
    return text, _OURS if text == base_instructions(profile) else source


def _family(name: str) -> str:
    return base_instructions(ModelProfile(slug="", instructions=name))


def _prompt(name: str, source: str, text: str) -> Prompt:
    data = text.encode()
    return Prompt(name, source, len(data), f"sha256:{hashlib.sha256(data).hexdigest()}")


def _row(prompt: Prompt) -> list[str]:
    digest = prompt.digest.removeprefix("sha256:")[:12]
    state = "in use" if prompt.intact else "CHANGED since the import; import again"
    return [prompt.name, printable(prompt.source), f"{prompt.size:,}", digest, state]
