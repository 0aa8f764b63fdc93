"""`treadle prompts`: the instruction texts of models, Treadle's own and imported ones."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import click
from msgspec import Struct

from ...core.errors import NotFound
from ...core.files import read_bounded
from ...harness.codex.version import choose_codex
from ...models.catalog import Catalog
from ...models.profile import ModelProfile
from ...prompt.codex_import import import_prompts
from ...prompt.imported_prompts import MOST_BYTES, PLAIN_NAME, ImportedPrompts, Manifest
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
_YOURS = "your file"
_SHARED = ("compact", "summary_prefix")
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
        binary = await choose_codex(None) if codex is None else codex
        report = await import_prompts(binary, home.path, tell)
    if as_json:
        say_json(report)
    else:
        say(f"imported {report.files} texts of {report.version} into {report.directory}")


@command.command(
    "add",
    epilog=examples(
        "treadle prompts add gpt-5.5 ./gpt_5_prompt.md", "treadle prompts add compact ./compact.md"
    ),
)
@click.argument("name")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@as_json
@click.pass_obj
def add(home: Home, name: str, file: Path, as_json: bool) -> None:
    """Use a text of your own, byte for byte.

    NAME is the name of a model without its provider, `compact` (asks for a summary) or
    `summary_prefix` (stands before one). New threads use it; an import leaves it as it is.
    """
    path = f"{name}.md" if name in _SHARED else f"models/{name}.md"
    if not re.fullmatch(PLAIN_NAME, name):
        raise click.UsageError(f"{name!r} is no name of a model; leave its provider out.")
    try:
        text = read_bounded(file, MOST_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{str(file)!r} cannot be read as text: {error}.") from error
    ImportedPrompts(home.path).add(path, text)
    if as_json:
        say_json(_prompt(name, _YOURS, text))
    else:
        say(f"new threads use {printable(str(file))} for {printable(name)}")


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
    families = [_prompt(name, _OURS, _family(name)) for name in FAMILIES]
    kept = {prompt.name: prompt for prompt in ImportedPrompts(home).all()}
    shared = [
        _prompt("compact", _source(manifest, "compact.md"), compaction_prompt(home)),
        _prompt("summary_prefix", _source(manifest, "summary_prefix.md"), summary_prefix(home)),
    ]
    models = [
        Prompt(Path(name).stem, _source(manifest, name), prompt.size, prompt.digest, prompt.intact)
        for name, prompt in kept.items()
        if name.startswith("models/")
    ]
    return [*families, *shared, *models]


def _find(home: Path, name: str) -> tuple[str, str]:
    """Return the text of that name, and its source."""
    if name in FAMILIES:
        return _family(name), _OURS
    manifest = ImportedPrompts(home).manifest()
    shared = {"compact": compaction_prompt, "summary_prefix": summary_prefix}
    if name in shared:
        return shared[name](home), _source(manifest, f"{name}.md")
    profile = Catalog.load(home / "models.toml").profile(name)
    if not profile.known:
        raise NotFound("text", name, "`treadle prompts` lists them; the name of a model works too")
    files = [f"models/{each}.md" for each in (profile.slug, profile.entry)]
    kept = manifest.digests if manifest else {}
    file = next((each for each in files if each in kept), "")
    return base_instructions(profile, home), _source(manifest, file)


def _source(manifest: Manifest | None, file: str) -> str:
    """Return where the text of a file comes from."""
    if manifest is None or file not in manifest.digests:
        return _OURS
    return _YOURS if file in manifest.own else manifest.version


def _family(name: str) -> str:
    return base_instructions(ModelProfile(slug="", instructions=name))


def _prompt(name: str, source: str, text: str) -> Prompt:
    data = text.encode()
    return Prompt(name, source, len(data), f"sha256:{hashlib.sha256(data).hexdigest()}")


def _row(prompt: Prompt) -> list[str]:
    digest = prompt.digest.removeprefix("sha256:")[:12]
    state = "in use" if prompt.intact else "CHANGED since the import; import again"
    return [prompt.name, printable(prompt.source), f"{prompt.size:,}", digest, state]
