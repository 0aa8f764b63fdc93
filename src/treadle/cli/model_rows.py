"""Rows of models: what `treadle models` tells about each, grouped by provider.

Owns which models are listed, in which order, and which is recommended. Invariant: a model
that somebody reported is listed with the date of the report.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from msgspec import Struct

from ..config import Settings
from ..config.settings import key_variable
from ..models.catalog import Catalog
from ..models.known_models import CODE_NAMES, RECOMMENDED
from ..models.model_reports import ModelReports
from ..models.profile import ModelProfile

__all__ = ["ModelRow", "model_rows", "recommended_model"]


class ModelRow(Struct, frozen=True, kw_only=True):
    """The facts about one model, or about all whose names begin with the name of an entry."""

    model: str
    provider: str
    recommended: bool
    """Whether it is the one to begin with at its provider."""
    window: int | None
    max_window: int | None
    """How far the window can be raised in `models.toml`."""
    efforts: tuple[str, ...]
    default_effort: str
    shell: str
    apply_patch: str
    images: bool
    key: str
    """``environment``, ``kept``, or nothing."""
    reported: str
    """Who reported it and when; nothing for facts that Treadle brings."""


_FAMILY = ("-", ".")
"""How the names of entries end that are no models, but the beginnings of their names."""


def model_rows(
    catalog: Catalog, settings: Settings, kept: Iterable[str], reports: ModelReports
) -> list[ModelRow]:
    """Return the models by provider: those with a key first, and each one's best first.

    `kept` are the providers whose keys are stored.
    """
    stored = set(kept)
    best = _best_models(reports)
    said = _dates(reports)
    names = dict.fromkeys(
        [f"{provider}:{slug}" for provider, slug in best.items()]
        + [
            f"{catalog.profile(name).provider}:{name}"
            for name in catalog.entries
            if not name.endswith(_FAMILY) and name not in CODE_NAMES
        ]
        + sorted(said)
    )
    rows = [
        _row(catalog.profile(name), settings, stored, best, said.get(name, "")) for name in names
    ]
    order = {provider: at for at, provider in enumerate(RECOMMENDED)}
    return sorted(
        rows,
        key=lambda row: (
            not row.key,
            order.get(row.provider, len(order)),
            row.provider,
            not row.recommended,
        ),
    )


def recommended_model(rows: Iterable[ModelRow]) -> ModelRow | None:
    """Return the model to begin with: that of the first provider which has a key."""
    return next((row for row in rows if row.recommended and row.key), None)


def _best_models(reports: ModelReports) -> dict[str, str]:
    """Return the best model by provider; what a source offers first counts before ours."""
    said = {each.provider: each.recommended for each in reports.sources.values()}
    return {**RECOMMENDED, **{provider: slug for provider, slug in said.items() if slug}}


def _dates(reports: ModelReports) -> dict[str, str]:
    """Return who said something about a model, and on which day, by full name."""
    ordered = sorted(reports.sources.values(), key=lambda each: each.at)
    return {
        f"{report.provider}:{slug}": f"{report.origin}, {report.at[:10]}"
        for report in ordered
        for slug in report.models
    }


def _row(
    profile: ModelProfile, settings: Settings, kept: set[str], best: dict[str, str], said: str
) -> ModelRow:
    provider = profile.provider
    in_environment = os.environ.get(key_variable(provider, settings.providers))
    return ModelRow(
        model=f"{provider}:{profile.slug}",
        provider=provider,
        recommended=best.get(provider) == profile.slug,
        window=profile.context_window,
        max_window=profile.max_context_window,
        efforts=profile.efforts,
        default_effort=profile.default_effort,
        shell=profile.shell,
        apply_patch=profile.apply_patch,
        images=profile.images,
        key="environment" if in_environment else "kept" * (provider in kept),
        reported=said,
    )
