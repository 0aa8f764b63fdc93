"""`treadle harnesses`: list the harnesses, and show which one runs a model."""

from __future__ import annotations

import os
from pathlib import Path

import click
from msgspec import Struct

from ...config import Config, load_config
from ...core.errors import ConfigError
from ...harness.offers import Registration
from ...harness.registry import HarnessRegistry
from ...harness.select import HarnessRules
from ...harness.thread_harness import ThreadHarness
from ...models.catalog import Catalog
from ..cli_home import Home
from ..command_options import as_json, model_option, runs
from ..lazy_group import examples
from ..output import Column, say, say_json, table
from ..thread_setup import harness_options, providers_of

__all__ = ["Chosen", "HarnessState", "choice", "command"]

_COLUMNS = (
    Column("HARNESS"),
    Column("OWNER"),
    Column("RUNS"),
    Column("WHAT IT IS", gives=True),
)


class Chosen(Struct, frozen=True, kw_only=True):
    """The harness that would run a model here."""

    model: str
    harness: str | None = None
    reason: str | None = None
    problem: str | None = None


class HarnessState(Struct, frozen=True, kw_only=True):
    """One harness."""

    id: str
    label: str
    owner: str
    providers: tuple[str, ...] | None
    """The providers whose models it runs under ``auto``; None: it is asked each time."""
    selected: bool = False


@click.command(
    "harnesses",
    epilog=examples("treadle harnesses", "treadle harnesses --model codex:gpt-5.5"),
)
@model_option
@as_json
@runs
async def command(home: Home, model: str | None, as_json: bool) -> None:
    """List the harnesses, and show which one would run the model here.

    `*` marks the harness that would run the model. RUNS shows which models a harness
    runs when you do not name a harness.
    """
    registry = HarnessRegistry()
    chosen = await choice(_config(home, model), home.path, registry)
    states = [_state(each, chosen) for each in registry.harnesses()]
    if as_json:
        conflicts = [str(conflict) for conflict in registry.conflicts()]
        say_json(
            {
                "chosen": chosen,
                "harnesses": states,
                "problems": registry.problems,
                "conflicts": conflicts,
            }
        )
    else:
        _print(states, chosen, registry)


def _config(home: Home, model: str | None) -> Config:
    flags = {"model": ("--model", model)} if model else None
    return load_config(home.path, Path().absolute(), os.environ, flags)


async def choice(config: Config, home: Path, registry: HarnessRegistry) -> Chosen:
    """Return the harness that would run the configured model; create and start nothing."""
    wanted = harness_options(config)
    slot = ThreadHarness(
        wanted=wanted.harness,
        catalog=Catalog.load(home / "models.toml").with_providers(config.settings.providers),
        home=home,
        environ=os.environ,
        providers=providers_of(config.settings),
        rules=wanted.rules or HarnessRules(),
        registry=registry,
    )
    await registry.load()
    model = config.settings.model
    try:
        found = slot.select(model)
    except ConfigError as error:
        return Chosen(model=model, problem=str(error))
    return Chosen(model=model, harness=found.harness, reason=found.reason)


def _state(each: Registration, chosen: Chosen) -> HarnessState:
    return HarnessState(
        id=each.id,
        label=each.label,
        owner=each.owner,
        providers=each.providers,
        selected=each.id == chosen.harness,
    )


def _print(states: list[HarnessState], chosen: Chosen, registry: HarnessRegistry) -> None:
    table(_COLUMNS, [_row(state) for state in states])
    told = chosen.problem or f"{chosen.model} runs on {chosen.harness} ({chosen.reason})"
    say(f"\n{told}")
    remarks = [f"{name}: {problem}" for name, problem in registry.problems.items()]
    remarks += [str(conflict) for conflict in registry.conflicts()]
    if remarks:
        say("\nwhat to know:")
    for remark in remarks:
        say(f"  {remark}")


def _row(state: HarnessState) -> list[str]:
    if state.id == "treadle":
        auto = "all other models"
    elif state.providers is None:
        auto = "asked each time"
    else:
        auto = " ".join(f"{name}:*" for name in state.providers) or "-"
    return [f"{state.id}*" if state.selected else state.id, state.owner, auto, state.label]
