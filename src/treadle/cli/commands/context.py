"""`treadle context`: show what fills the window of a thread's model."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import click

from ...config import Settings, load_config
from ...context.composition import Composition, compose_window
from ...context.head import named_model
from ...context.view import View, load_view
from ...log.window_costs import NextCost, context_json, next_cost
from ...models.catalog import Catalog
from ...prompt.registry import installed_registry
from ..cli_home import Home, find_thread
from ..command_options import as_json, runs, shown_thread_argument
from ..context_view import context_bar, context_rows
from ..lazy_group import examples
from ..output import Column, say, say_json, table

__all__ = ["command"]

_COLUMNS = (
    Column("", spare=1),
    Column("WHAT", gives=True),
    Column("TOKENS", right=True),
    Column("SHARE", right=True),
)
_WIDTH = 60


@click.command("context", epilog=examples("treadle context last", "treadle context last --json"))
@shown_thread_argument
@as_json
@runs
async def command(home: Home, name: str, as_json: bool) -> None:
    """Show what fills the window of a thread's model, by kind, in tokens and money.

    Tokens are estimated, and scaled to what the provider counted last. The cost is that of
    the input of the next request as it stands: once with nothing from a cache, once with all.
    """
    registry = await asyncio.to_thread(installed_registry)
    settings, catalog = await asyncio.to_thread(_facts, home)
    async with home.store() as store:
        thread = (await find_thread(store, name)).id
        view = await load_view(store, thread, registry)
    if view.head is None:
        raise click.ClickException(
            "the thread has not asked its model anything yet; `treadle prompt` shows the "
            "first request of a new thread"
        )
    profile = catalog.profile(f"{view.head.provider}:{view.head.model}")
    found = compose_window(view, profile.effective_window)
    cost = next_cost(found, view.head, settings.prices)
    if as_json:
        say_json({"thread": thread, "model": named_model(view.head), **context_json(found, cost)})
    else:
        _print(found, view, cost)


def _facts(home: Home) -> tuple[Settings, Catalog]:
    settings = load_config(home.path, Path().absolute(), os.environ).settings
    catalog = Catalog.load(home.path / "models.toml")
    return settings, catalog.with_providers(settings.providers)


def _print(found: Composition, view: View, cost: NextCost | None) -> None:
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    runs = context_bar(found, _WIDTH)
    drawn = [
        click.style(" " * count, bg=colour) if coloured and colour else letter * count
        for letter, count, colour in runs
    ]
    click.echo("".join(drawn))
    how = "as the provider counted, and estimated since" if found.counted else "estimated"
    window = f" of {found.window:,}" if found.window else ""
    say(f"{named_model(view.head)}: {found.tokens:,}{window} tokens, {how}")
    say("")
    table(_COLUMNS, context_rows(found))
    say("")
    say(_cost_line(cost))


def _cost_line(cost: NextCost | None) -> str:
    if cost is None:
        return "the cost of the next request is not known: its model has no price"
    return f"the next request costs {cost.cold} cold, {cost.cached} from the cache"
