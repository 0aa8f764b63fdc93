"""`treadle models`: list the known models, and ask servers and Codex what theirs can do."""

from __future__ import annotations

from itertools import groupby

import click

from ...models.catalog import Catalog
from ...models.model_reports import load_reports
from ...policy.auth.secrets import SecretStore
from ..cli_home import Home
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..model_refresh import CODEX, RefreshResult, refresh_models, usual_sources
from ..model_rows import ModelRow, model_rows, recommended_model
from ..output import Column, say, say_json, table, working
from ..profiles import check_provider, credentials_of, settings_of

__all__ = ["command"]

_COLUMNS = (
    Column(""),
    Column("MODEL"),
    Column("WINDOW", right=True),
    Column("EFFORTS", gives=True),
    Column("PATCHES", spare=1),
    Column("IMAGES", spare=2),
    Column("REPORTED BY", spare=3),
)
_SHOWN = 40
"""So many models of a provider are listed, unless it is asked for by its name."""


@click.group(
    "models",
    invoke_without_command=True,
    epilog=examples(
        "treadle models",
        "treadle models --provider openai",
        "treadle models --json | jq -r '.[] | select(.recommended).model'",
        "treadle models refresh",
    ),
)
@click.option("--provider", default="", help="List the models of one provider only.")
@as_json
@click.pass_context
def command(ctx: click.Context, provider: str, as_json: bool) -> None:
    """List the models in the catalog, by provider; `*` marks the one to begin with.

    An entry applies to every model whose name begins with it. Other models work too, as
    `provider:model`. Providers with a key come first. `treadle models refresh` asks servers
    and Codex about their models; what they said is listed with its date, and `models.toml`
    has the last word.
    """
    if ctx.invoked_subcommand is None:
        _list(ctx.obj, provider, as_json=as_json)


@command.command(
    "refresh",
    epilog=examples(
        "treadle models refresh",
        "treadle models refresh codex",
        "treadle models refresh ollama openrouter --json",
    ),
)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@as_json
@runs
async def refresh(home: Home, *, sources: tuple[str, ...], as_json: bool) -> int:
    """Ask SOURCE what its models can do, and store what it says in the home.

    A source is a provider, whose server is asked for its list of models, or `codex`: the
    installed Codex, with the login of your own Codex home. Without a source, Codex and all
    providers that have a key or settings are asked. Windows, images and efforts are taken
    from what is said; `models.toml` has the last word.
    """
    settings = settings_of(home)
    credentials = credentials_of(home, settings)
    for source in sources:
        if source != CODEX:
            check_provider(settings, source)
    results: list[RefreshResult] = []
    with working("asking for models", steps=False) as progress:
        for source in sources or usual_sources(settings, credentials):
            progress(f"asking {source}")
            results.append(await refresh_models(home.path, settings, credentials, source))
    _tell(results, as_json=as_json)
    return 1 if not results or any(result.problem for result in results) else 0


def _tell(results: list[RefreshResult], *, as_json: bool) -> None:
    if as_json:
        say_json(results)
    elif not results:
        say("nobody to ask: name a provider, or run `treadle auth add PROVIDER` first")
    for result in results if not as_json else ():
        told = result.problem or f"{result.models} models, from {result.origin}"
        say(f"{result.source}: {told}")


def _list(home: Home, provider: str, *, as_json: bool) -> None:
    settings = settings_of(home)
    if provider:
        check_provider(settings, provider)
    catalog = Catalog.load(home.path / "models.toml")
    kept = (each.provider for each in SecretStore(home.path).profiles() if each.kind == "api_key")
    rows = model_rows(catalog, settings, kept, load_reports(home.path))
    rows = [row for row in rows if provider in ("", row.provider)]
    if as_json:
        say_json(rows)
    else:
        _print_groups(rows, most=len(rows) if provider else _SHOWN)


def _print_groups(rows: list[ModelRow], *, most: int) -> None:
    for provider, group in groupby(rows, key=lambda row: row.provider):
        found = list(group)
        where = {"environment": "its key is in the environment", "kept": "its key is stored"}
        say(f"{provider}: {where.get(found[0].key, 'no key')}")
        table(_COLUMNS, [_cells(row) for row in found[:most]])
        if len(found) > most:
            left = len(found) - most
            say(f"  {left} more; `treadle models --provider {provider}` lists them")
        say("")
    best = recommended_model(rows)
    if best is None:
        say("No provider here has a key; `treadle auth add PROVIDER` stores one.")
    else:
        say(f"Recommended: {best.model}. Name it with `--model {best.model}`.")


def _cells(row: ModelRow) -> list[str]:
    efforts = [f"{e}*" if e == row.default_effort else e for e in row.efforts]
    wider = f" of {row.max_window:,}" if (row.max_window or 0) > (row.window or 0) else ""
    return [
        "*" if row.recommended else "",
        row.model.partition(":")[2],
        f"{row.window:,}{wider}" if row.window else "",
        " ".join(efforts),
        row.apply_patch,
        "yes" if row.images else "no",
        row.reported,
    ]
