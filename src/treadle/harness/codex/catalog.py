"""The models an app-server knows, with room above their windows.

Owns the edited catalog. An app-server reads its catalog once, at its start, and no
thread may have a wider window than `max_context_window` says; so that is raised for
all, and only threads that ask for it (`LIFTED`) get more. Invariant: a thread that
does not ask has the window, and the compaction, that the binary itself gives it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ...core.errors import ConfigError
from ...core.files import replace_file
from ...prompt.codex import bundled_models
from .errors import CodexMissing

__all__ = ["UNKNOWN_MODEL", "UNLIMITED", "ExtraModel", "edit_catalog", "has_model", "write_catalog"]

_WIDEST = 100_000_000

UNLIMITED: dict[str, Any] = {
    "model_context_window": _WIDEST,
    "model_auto_compact_token_limit": _WIDEST * 9 // 10,
}
"""A thread's `config` under which it never compacts of its own accord."""


class _Model(Struct):
    slug: str


class _Listing(Struct):
    models: list[_Model]


class ExtraModel(Struct, frozen=True, kw_only=True):
    """A model the binary has never heard of, described like one that it has."""

    slug: str
    context_window: int
    like: str = "gpt-5.5"


UNKNOWN_MODEL = ExtraModel(slug="", context_window=272_000)
"""Every model the binary has never heard of, for it knows models by how their names begin."""

_PLAIN: dict[str, Any] = {
    "additional_speed_tiers": [],
    "apply_patch_tool_type": None,
    "comp_hash": None,
    "default_reasoning_level": None,
    "default_reasoning_summary": "auto",
    "default_verbosity": None,
    "include_apps_usage_instructions": False,
    "include_plugin_usage_instructions": False,
    "include_skills_usage_instructions": False,
    "model_messages": None,
    "service_tiers": [],
    "support_verbosity": False,
    "supported_reasoning_levels": [],
    "supports_image_detail_original": False,
    "supports_search_tool": False,
    "truncation_policy": {"mode": "bytes", "limit": 10_000},
    "web_search_tool_type": "text",
}
"""What the binary takes for granted of a model that it does not know."""


def has_model(listing: bytes, slug: str) -> bool:
    """Whether a catalog has an entry that stands for the model `slug`, whoever offers it."""
    slugs = msgspec.json.decode(listing, type=_Listing).models
    return any(slug.rpartition("/")[2].startswith(each.slug) for each in slugs if each.slug)


async def write_catalog(binary: Path, directory: Path, own: Iterable[ExtraModel] = ()) -> Path:
    """The edited catalog of `binary` as a file in `directory`, made where there is none."""
    own = tuple(own)
    place = directory / f"models-{await asyncio.to_thread(_fingerprint, binary, own)}.json"
    if not await asyncio.to_thread(place.is_file):
        edited = edit_catalog(await bundled_models(binary), own)
        await asyncio.to_thread(replace_file, place, edited)
    return place


def edit_catalog(listing: bytes, own: Iterable[ExtraModel] = ()) -> bytes:
    """`listing` with room above every window, and with the models of `own`."""
    try:
        catalog = msgspec.json.decode(listing)
        models = {model["slug"]: model for model in catalog["models"]}
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise ConfigError(
            "this Codex lists its models in a way Treadle cannot read; try another version of Codex"
        ) from error
    for each in own:
        models[each.slug] = {**_model(models, each.like), **_description(each)}
    for model in models.values():
        model["max_context_window"] = _WIDEST
    return msgspec.json.encode({**catalog, "models": list(models.values())})


def _description(own: ExtraModel) -> dict[str, Any]:
    named = {"slug": own.slug, "display_name": own.slug, "upgrade": None}
    plain = {} if own.slug else _PLAIN
    return {**named, **plain, "context_window": own.context_window}


def _model(models: dict[str, Any], slug: str) -> dict[str, Any]:
    if slug not in models:
        raise ConfigError(
            f"this Codex does not know the model {slug!r}; say like which of these another is: "
            + ", ".join(sorted(models))
        )
    model: dict[str, Any] = models[slug]
    return model


def _fingerprint(binary: Path, own: tuple[ExtraModel, ...]) -> str:
    try:
        facts = binary.stat()
    except OSError as error:
        raise CodexMissing.because(binary, error) from error
    known = msgspec.json.encode([str(binary), facts.st_size, facts.st_mtime_ns, own])
    return hashlib.sha256(known).hexdigest()[:16]
