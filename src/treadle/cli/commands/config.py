"""`treadle config`: show the settings, and where each comes from."""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from ...config import ExplainedSetting, load_config
from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..output import Column, say, say_json, table

__all__ = ["command"]

_COLUMNS = (Column("KEY"), Column("VALUE", gives=True), Column("FROM"))


@click.group(
    "config",
    invoke_without_command=True,
    epilog=examples("treadle config", "treadle config explain sandbox"),
)
@as_json
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the settings that apply here, and where each comes from."""
    if ctx.invoked_subcommand is None:
        _show(ctx.obj, "", as_json=as_json)


@command.command(
    "explain",
    epilog=examples("treadle config explain", "treadle config explain model --json"),
)
@click.argument("key", required=False, default="")
@as_json
@click.pass_obj
def explain(home: Home, key: str, as_json: bool) -> None:
    """Show where settings come from.

    With KEY, the values that were overridden are shown too, the strongest first. From weak to
    strong, the sources are: `config.toml` in Treadle's home, `.treadle/config.toml` of a
    trusted project, variables such as TREADLE_MODEL, flags.
    """
    _show(home, key, as_json=as_json)


def _show(home: Home, key: str, *, as_json: bool) -> None:
    config = load_config(home.path, Path().absolute(), os.environ)
    told = config.explain(key)
    if as_json:
        say_json(told)
    elif told:
        table(_COLUMNS, [_row(entry) for entry in told])
    else:
        say(f"there is no setting {key!r}")
    if config.untrusted is not None and not as_json:
        say(f"\n{config.untrusted} is not used: it is not trusted (`treadle trust`)")


def _row(entry: ExplainedSetting) -> list[str]:
    source = entry.source or entry.layer
    return [entry.key, _text(entry.value), source if entry.used else f"{source} (overridden)"]


def _text(value: object) -> str:
    return "-" if value is None else msgspec.json.encode(value).decode()
