"""`treadle models`: list the known models."""

from __future__ import annotations

import os
from pathlib import Path

import click
from msgspec import Struct

from ...config import Settings, load_config
from ...config.settings import key_variable
from ...models.catalog import Catalog
from ...models.profile import ModelProfile
from ...policy.auth.secrets import SecretStore
from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..output import Column, say_json, table

__all__ = ["command"]

_COLUMNS = (
    Column("MODEL"),
    Column("WINDOW", right=True),
    Column("EFFORTS", gives=True),
    Column("COMMANDS"),
    Column("PATCHES"),
    Column("IMAGES"),
    Column("KEY"),
)


class ModelRow(Struct, frozen=True):
    """The facts about one model."""

    model: str
    window: int | None
    efforts: tuple[str, ...]
    default_effort: str
    shell: str
    apply_patch: str
    images: bool
    key: str
    """``environment``, ``kept``, or nothing."""


@click.command(
    "models", epilog=examples("treadle models", "treadle models --json | jq -r '.[].model'")
)
@as_json
@click.pass_obj
def command(home: Home, as_json: bool) -> None:
    """List the models in the catalog.

    An entry applies to every model whose name begins with it. Other models work too, as
    `provider:model`. KEY shows where the key of the provider comes from.
    """
    catalog = Catalog.load(home.path / "models.toml")
    settings = load_config(home.path, Path().absolute(), os.environ).settings
    kept = {each.provider for each in SecretStore(home.path).profiles() if each.kind == "api_key"}
    known = [
        _describe_model(catalog.profile(name), settings, kept) for name in sorted(catalog.entries)
    ]
    if as_json:
        say_json(known)
    else:
        table(_COLUMNS, [_row(model) for model in known])


def _describe_model(profile: ModelProfile, settings: Settings, kept: set[str]) -> ModelRow:
    in_environment = os.environ.get(key_variable(profile.provider, settings.providers))
    return ModelRow(
        model=f"{profile.provider}:{profile.slug}",
        window=profile.context_window,
        efforts=profile.efforts,
        default_effort=profile.default_effort,
        shell=profile.shell,
        apply_patch=profile.apply_patch,
        images=profile.images,
        key="environment" if in_environment else "kept" * (profile.provider in kept),
    )


def _row(model: ModelRow) -> list[str]:
    efforts = [f"{e}*" if e == model.default_effort else e for e in model.efforts]
    return [
        model.model,
        f"{model.window:,}" if model.window else "",
        " ".join(efforts),
        model.shell,
        model.apply_patch,
        "yes" if model.images else "no",
        model.key,
    ]
