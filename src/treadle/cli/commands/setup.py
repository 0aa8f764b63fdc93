"""`treadle setup`: three questions, and the settings that follow from the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import click

from ...config import Settings
from ...core.errors import InvalidOption
from ...models.catalog import Catalog
from ...models.providers import check_model_name
from ..cli_home import Home
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..output import printable, say, say_json
from ..profiles import settings_of
from ..run_options import APPROVALS, SANDBOXES, RunOptions
from ..settings_file import write_settings
from ..setup_questions import SetupQuestions, model_offers
from ..terminal_input import is_attended, read_line
from ..thread_setup import prepare, providers_of
from ..ways_in import missing_access

__all__ = ["command"]


@click.command(
    "setup",
    epilog=examples(
        "treadle setup",
        "treadle setup --model ollama:qwen3-coder --sandbox workspace-write --json",
    ),
)
@click.option("--model", metavar="MODEL", help="The model; it is not asked for then.")
@click.option("--sandbox", type=click.Choice(SANDBOXES), help="What commands may read and write.")
@click.option(
    "--approval", type=click.Choice(APPROVALS), help="When to ask you before a command runs."
)
@as_json
@runs
async def command(
    home: Home, *, model: str | None, sandbox: str | None, approval: str | None, as_json: bool
) -> None:
    """Choose a model, store its key and set the rights, in three questions.

    The answers are written to `config.toml` in the home; everything else in it stays as it
    is. Keys are stored like those of `treadle auth add`. Options answer a question
    beforehand; without a terminal, --model must be given.
    """
    questions = None
    if is_attended() and not as_json:
        questions = SetupQuestions(read_line, _read_secret)
    settings = settings_of(home)
    if model is None:
        if questions is None:
            raise click.UsageError("there is no terminal to ask on; give --model MODEL")
        model = await _ask_model(questions, home, settings)
    else:
        await asyncio.to_thread(_check_name, model, home, settings)
    missing = await _missing(home, model)
    if questions is not None and "treadle auth add" in missing:
        questions.ask_key(home, settings, model.partition(":")[0])
        missing = await _missing(home, model)
    if questions is not None and sandbox is None and approval is None:
        rights = await questions.ask_rights()
        sandbox, approval = rights.sandbox, rights.approval
    named = {"model": model, "sandbox": sandbox, "approval": approval}
    values = {key: value for key, value in named.items() if value}
    file = write_settings(home.path, values)
    if as_json:
        say_json({"file": str(file), **values, "missing": missing})
    else:
        _report(file, values, missing)


async def _ask_model(questions: SetupQuestions, home: Home, settings: Settings) -> str:
    """Ask which model to use until the answer names one."""
    offers = await model_offers(settings, home)
    while True:
        model = await questions.ask_model(offers)
        try:
            await asyncio.to_thread(_check_name, model, home, settings)
        except InvalidOption as error:
            click.echo(f"treadle: {printable(str(error))}", err=True)
        else:
            return model


def _check_name(model: str, home: Home, settings: Settings) -> None:
    """Raise `InvalidOption` for the name of no model. Blocks on files."""
    catalog = Catalog.load(home.path / "models.toml").with_providers(settings.providers)
    provider, slug = catalog.split(model)
    if provider != "codex" or not slug:  # Codex knows its own
        check_model_name(model, catalog, providers_of(settings))


async def _missing(home: Home, model: str) -> str:
    """Return what a thread with this model would lack. Raises `ConfigError` for no model."""
    return await missing_access(await prepare(home, RunOptions(model=model)))


def _read_secret(question: str) -> str:
    answer: str = click.prompt(question, default="", show_default=False, hide_input=True, err=True)
    return answer


def _report(file: Path, values: Mapping[str, str], missing: str) -> None:
    told = ", ".join(f"{key} = {value}" for key, value in values.items())
    say(f"wrote {file}: {told}")
    if missing:
        say(f"still missing: {missing}")
    say('Try it: `treadle`, or `treadle "what is this project?"`')
