"""`weft auth`: keys of providers, kept for you."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ...auth.keys import KeyFile
from ...configuration import load_config
from ...configuration.keys import key_variable
from ...configuration.settings import ProviderSettings
from ...errors import NotFound
from ..home import Home
from ..lazy import examples
from ..options import as_json, standard_input
from ..output import Column, say, say_json, table

__all__ = ["command"]

_COLUMNS = (Column("PROVIDER"), Column("VARIABLE"), Column("KEY"))


@click.group(
    "auth",
    invoke_without_command=True,
    epilog=examples(
        "weft auth", "weft auth set openai", "pass openai | weft auth set openai", "weft auth list"
    ),
)
@as_json
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Keep one key for each provider, in a file that only you can read.

    A key that is set in the environment comes first. Keys are told by name only.
    """
    if ctx.invoked_subcommand is None:
        _list(ctx.obj, as_json=as_json)


@command.command("list", epilog=examples("weft auth list --json"))
@as_json
@click.pass_obj
def list_keys(home: Home, as_json: bool) -> None:
    """Tell whose keys are known, and from where."""
    _list(home, as_json=as_json)


@command.command("set", epilog=examples("weft auth set openai"))
@click.argument("provider")
@as_json
@click.pass_obj
def set_key(home: Home, provider: str, as_json: bool) -> None:
    """Keep the key of PROVIDER; it is read from standard input, or asked for unseen."""
    _check_provider(home, provider)
    key = _asked(provider) if sys.stdin.isatty() else standard_input()
    KeyFile(home.path).put(provider, key)
    _tell({"provider": provider, "kept": True}, f"kept the key of {provider}", as_json=as_json)


@command.command("remove", epilog=examples("weft auth remove openai"))
@click.argument("provider")
@as_json
@click.pass_obj
def remove_key(home: Home, provider: str, as_json: bool) -> None:
    """Forget the key of PROVIDER."""
    if not KeyFile(home.path).remove(provider):
        raise NotFound("key of the provider", provider, "`weft auth` lists those that are kept")
    _tell({"provider": provider, "kept": False}, f"forgot the key of {provider}", as_json=as_json)


def _asked(provider: str) -> str:
    answer: str = click.prompt(f"Key of {provider}", hide_input=True, err=True)
    return answer


def _check_provider(home: Home, provider: str) -> None:
    import difflib

    from ...models.providers import provider_names

    known = (*provider_names(), *_providers(home))
    if provider not in known:
        close = difflib.get_close_matches(provider, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
        raise NotFound("provider", provider, hint)


def _providers(home: Home) -> dict[str, ProviderSettings]:
    return load_config(home.path, Path().absolute(), os.environ).settings.providers


def _list(home: Home, *, as_json: bool) -> None:
    from ...models.providers import provider_names

    configured = _providers(home)
    kept = KeyFile(home.path).providers
    found = []
    for provider in sorted({*provider_names(), *configured, *kept}):
        variable = key_variable(provider, configured)
        known = "environment" if os.environ.get(variable) else "kept" * (provider in kept)
        if known:
            found.append({"provider": provider, "variable": variable, "key": known})
    if as_json:
        say_json(found)
    elif found:
        table(_COLUMNS, [list(row.values()) for row in found])
    else:
        say("no keys are known; `weft auth set PROVIDER` keeps one")


def _tell(value: dict[str, object], text: str, *, as_json: bool) -> None:
    if as_json:
        say_json(value)
    else:
        say(text)
