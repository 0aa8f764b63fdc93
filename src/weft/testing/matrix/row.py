"""Rows: one promise each, as data.

Owns the shape of a row and the files that hold them. Invariants: ids are unique, every
row says where it comes from and what it expects, and few are deferred, each with a
reason.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from ...errors import ConfigError

__all__ = ["DEFERRED_AT_MOST", "DOMAINS", "Domain", "Row", "load_rows"]

Domain: TypeAlias = Literal[
    "tools",
    "auth",
    "prompt",
    "transcript",
    "schema",
    "transport",
    "outcome",
    "delivery",
    "selection",
    "context",
]
DOMAINS: tuple[Domain, ...] = get_args(Domain)

HarnessName: TypeAlias = str
"""``shared`` for a policy that no harness has a part in, else the name of a harness."""

DEFERRED_AT_MOST = 5


class Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One promise: what is given, and what must be seen then."""

    id: str
    domain: Domain
    title: str
    source: str
    harnesses: tuple[HarnessName, ...]
    driver: str
    given: Mapping[str, Any]
    expected: Mapping[str, Any]
    deferred: str = ""
    """Why it is not played yet; empty for a row that is."""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    domain: Domain
    row: tuple[dict[str, Any], ...]
    source: str = ""
    driver: str = ""
    harnesses: tuple[str, ...] = ()


def load_rows(places: Iterable[Traversable] | None = None) -> tuple[Row, ...]:
    """Every row, by file and in the order of the file. Raises `ConfigError`."""
    found = places if places is not None else _shipped()
    rows = tuple(row for place in sorted(found, key=lambda each: each.name) for row in _read(place))
    _check(rows)
    return rows


def _shipped() -> list[Traversable]:
    directory = resources.files(__package__) / "rows"
    return [place for place in directory.iterdir() if place.name.endswith(".toml")]


def _read(place: Traversable) -> list[Row]:
    """The rows of a file; what it says at its head holds for each that says nothing else."""
    try:
        told = msgspec.convert(tomllib.loads(place.read_text(encoding="utf-8")), _File)
        usual = {
            "domain": told.domain,
            "source": told.source,
            "driver": told.driver,
            "harnesses": told.harnesses,
        }
        return [msgspec.convert({**usual, **each}, Row) for each in told.row]
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"the rows in {place.name!r} cannot be used: {error}") from error


def _check(rows: tuple[Row, ...]) -> None:
    seen: set[str] = set()
    for row in rows:
        if row.id in seen:
            raise ConfigError(f"the row {row.id!r} is there twice; rename one")
        seen.add(row.id)
        if not (row.title and row.source and row.driver and row.harnesses and row.expected):
            raise ConfigError(f"the row {row.id!r} leaves something out; say all of it")
    deferred = [row.id for row in rows if row.deferred]
    if len(deferred) > DEFERRED_AT_MOST:
        raise ConfigError(f"{len(deferred)} rows are deferred, at most {DEFERRED_AT_MOST} may be")
