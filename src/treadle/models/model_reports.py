"""Reports: what servers, and the user's own Codex, said of their models when they were asked.

Owns ``model-reports.json`` in the home. Invariants: a report replaces the earlier one of its
source and touches no other; and the file is only ever a copy: without it, or when it is
damaged, the catalog applies.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ..core.files import read_bounded, replace_file
from ..core.typed import decode_json
from ..core.wire import UNREADABLE, json_bytes
from .catalog import REPORTS_FILE, ReportedFacts

__all__ = ["ModelReport", "ModelReports", "add_to_report", "load_reports", "store_report"]

_log = logging.getLogger(__name__)
_MOST_BYTES = 16 << 20


class ModelReport(Struct, frozen=True, kw_only=True):
    """What one source said."""

    provider: str
    """The provider whose models they are."""
    origin: str
    """Who was asked: an address, or a version of Codex."""
    at: str
    """When, in ISO format."""
    models: dict[str, dict[str, Any]]
    """Fields of profiles by slug; none for a model of which only the name was said."""
    recommended: str = ""
    """The model that the source offers first."""


class ModelReports(Struct, frozen=True):
    """All reports of a home, by source: a provider, or ``codex``."""

    sources: dict[str, ModelReport] = {}

    def facts(self) -> ReportedFacts:
        """Return what is said of each model; of two that speak of one, the later counts."""
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for report in sorted(self.sources.values(), key=lambda each: each.at):
            of_provider = found.setdefault(report.provider, {})
            for slug, fields in report.models.items():
                of_provider[slug] = {**of_provider.get(slug, {}), **fields}
        return found


def load_reports(home: Path) -> ModelReports:
    """Return the reports that are stored in `home`."""
    path = _path(home)
    try:
        return decode_json(read_bounded(path, _MOST_BYTES), ModelReports)
    except (FileNotFoundError, NotADirectoryError):
        return ModelReports()
    except (OSError, *UNREADABLE) as error:
        _log.warning(
            "%s cannot be read and is ignored (%s); run `treadle models refresh`", path, error
        )
        return ModelReports()


def store_report(home: Path, source: str, report: ModelReport) -> None:
    """Store a report durably, in place of the earlier one of `source`."""
    sources = {**load_reports(home).sources, source: report}
    body = msgspec.json.format(json_bytes(ModelReports(sources)), indent=1)
    replace_file(_path(home), body + b"\n")


def add_to_report(home: Path, source: str, report: ModelReport) -> None:
    """Store what a source says of some models; what it said of others stays."""
    known = load_reports(home).sources.get(source)
    models = {**(known.models if known else {}), **report.models}
    store_report(home, source, msgspec.structs.replace(report, models=models))


def _path(home: Path) -> Path:
    return home / REPORTS_FILE
