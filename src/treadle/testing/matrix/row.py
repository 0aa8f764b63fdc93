"""Rows: one promise each, as data.

Owns the shape of a row and the files that hold them. Invariants: ids are unique, every
row says where it comes from and what it expects, few are deferred, each with a reason,
and what was left out of a source is named with the reason, too.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from ...core.errors import ConfigError

__all__ = [
    "DEFERRED_AT_MOST",
    "DOMAINS",
    "SHARED",
    "WIRES",
    "Domain",
    "LeftOut",
    "Row",
    "Wire",
    "load_left_out",
    "load_rows",
]

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

Wire: TypeAlias = Literal["any", "named", "responses"]
"""``any`` model, one with a name that a thread can come back to, or one that is asked in the
format of Responses, because the driver reads it off the wire."""
WIRES: tuple[Wire, ...] = get_args(Wire)

SHARED = "shared"
"""Where rows are played that no harness has a part in."""

HarnessName: TypeAlias = str
"""``shared``, or the name of a harness."""

_EVERY = frozenset(("treadle", "codex"))

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
    wire: Wire = "responses"
    """Which models it can be played with."""

    @property
    def everywhere(self) -> bool:
        """Whether every harness has to keep it, those of other people included."""
        return set(self.harnesses) >= _EVERY


class LeftOut(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of a source that are not ours to keep."""

    domain: Domain
    ids: str
    reason: str


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    domain: Domain
    row: tuple[dict[str, Any], ...]
    source: str = ""
    driver: str = ""
    harnesses: tuple[str, ...] = ()
    wire: str = "responses"
    left_out: tuple[dict[str, str], ...] = ()

    def rows(self) -> list[Row]:
        """Its rows; what is said at its head holds for each that says nothing else."""
        usual = {
            "domain": self.domain,
            "source": self.source,
            "driver": self.driver,
            "harnesses": self.harnesses,
            "wire": self.wire,
        }
        return [msgspec.convert({**usual, **each}, Row) for each in self.row]


def load_rows(places: Iterable[Traversable] | None = None) -> tuple[Row, ...]:
    """Every row, by file and in the order of the file. Raises `ConfigError`."""
    rows = tuple(row for each in _files(places) for row in each.rows())
    _check(rows)
    return rows


def load_left_out(places: Iterable[Traversable] | None = None) -> tuple[LeftOut, ...]:
    """What was left out of the sources, and why. Raises `ConfigError`."""
    return tuple(
        LeftOut(domain=file.domain, **each) for file in _files(places) for each in file.left_out
    )


def _files(places: Iterable[Traversable] | None) -> list[_File]:
    found = places if places is not None else _shipped()
    return [_read(place) for place in sorted(found, key=lambda each: each.name)]


def _shipped() -> list[Traversable]:
    directory = resources.files(__package__) / "rows"
    return [place for place in directory.iterdir() if place.name.endswith(".toml")]


def _read(place: Traversable) -> _File:
    try:
        file = msgspec.convert(tomllib.loads(place.read_text(encoding="utf-8")), _File)
        file.rows()
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"the rows in {place.name!r} cannot be used: {error}") from error
    return file


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
