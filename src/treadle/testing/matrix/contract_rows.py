"""Rows of the matrix: one promise each, as data.

Owns the shape of a row and the files of rows. Invariants: ids are unique, every row names
its source and what it expects, few are deferred, each with a reason, and what was left out
of a source is listed with its reason.
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
from ...core.typed import convert

__all__ = [
    "DEFERRED_AT_MOST",
    "DOMAINS",
    "SHARED",
    "WIRES",
    "ContractRow",
    "Domain",
    "LeftOut",
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
"""``any`` model, one with a name that a thread can be opened with again, or one that uses the
Responses format, because the driver reads the requests."""
WIRES: tuple[Wire, ...] = get_args(Wire)

SHARED = "shared"
"""Stands for the harness in rows that need none."""

HarnessName: TypeAlias = str
"""``shared``, or the name of a harness."""

_EVERY = frozenset(("treadle", "codex"))

DEFERRED_AT_MOST = 5


class ContractRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One promise: what is given, and what must be observed then."""

    id: str
    domain: Domain
    title: str
    source: str
    harnesses: tuple[HarnessName, ...]
    driver: str
    given: Mapping[str, Any]
    expected: Mapping[str, Any]
    deferred: str = ""
    """Why it is not run yet; empty for a row that is."""
    wire: Wire = "responses"
    """Which models it can be run with."""

    @property
    def is_for_all(self) -> bool:
        """Return whether it holds for every harness, those of third parties included."""
        return set(self.harnesses) >= _EVERY


class LeftOut(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of a source that are not among ours."""

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

    def rows(self) -> list[ContractRow]:
        """Return its rows; the values at its head are the defaults of each row."""
        usual = {
            "domain": self.domain,
            "source": self.source,
            "driver": self.driver,
            "harnesses": self.harnesses,
            "wire": self.wire,
        }
        return [convert({**usual, **each}, ContractRow) for each in self.row]


def load_rows(places: Iterable[Traversable] | None = None) -> tuple[ContractRow, ...]:
    """Return every row, by file and in the order of the file. Raises `ConfigError`."""
    rows = tuple(row for each in _files(places) for row in each.rows())
    _check(rows)
    return rows


def load_left_out(places: Iterable[Traversable] | None = None) -> tuple[LeftOut, ...]:
    """Return what was left out of the sources, and why. Raises `ConfigError`."""
    return tuple(
        LeftOut(domain=file.domain, **each) for file in _files(places) for each in file.left_out
    )


def _files(places: Iterable[Traversable] | None) -> list[_File]:
    found = places if places is not None else _own_files()
    return [_read(place) for place in sorted(found, key=lambda each: each.name)]


def _own_files() -> list[Traversable]:
    directory = resources.files(__package__) / "rows"
    return [place for place in directory.iterdir() if place.name.endswith(".toml")]


def _read(place: Traversable) -> _File:
    try:
        file = convert(tomllib.loads(place.read_text(encoding="utf-8")), _File)
        file.rows()
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"the rows in {place.name!r} cannot be used: {error}") from error
    return file


def _check(rows: tuple[ContractRow, ...]) -> None:
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
