"""Released rows: what users were promised, as of the last release.

Owns the file of digests and what has changed since. Invariant: a promise that was released
changes or goes only with a line in the changelog that names its row.
`python -m treadle.testing.matrix.released` writes the file anew, at a release.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path

import msgspec

from .row import Row, load_rows

__all__ = ["broken", "digest", "released", "unnamed", "write"]

_FILE = "released.json"


def digest(row: Row) -> str:
    """What a row promises, in a few characters: not its title, its source or its driver."""
    promise = (row.given, row.expected, sorted(row.harnesses), bool(row.deferred))
    return hashlib.sha256(msgspec.json.encode(promise, order="deterministic")).hexdigest()[:16]


def released() -> dict[str, str]:
    """The digests of the rows as they were released, by id."""
    found = resources.files(__package__) / _FILE
    return msgspec.json.decode(found.read_bytes(), type=dict[str, str])


def broken(rows: Iterable[Row], promised: Mapping[str, str]) -> dict[str, str]:
    """The released rows whose promise is another now, or gone: by id, what became of it."""
    present = {row.id: digest(row) for row in rows}
    gone = {name: "gone" for name in promised if name not in present}
    changed = {
        name: "changed"
        for name, told in promised.items()
        if name in present and present[name] != told
    }
    return changed | gone


def unnamed(ids: Iterable[str], changelog: str) -> list[str]:
    """Those of `ids` that the unreleased part of a changelog does not name."""
    part = re.search(r"^## \[Unreleased\]$(.*?)(?=^## \[|\Z)", changelog, re.DOTALL | re.MULTILINE)
    text = part[1] if part else ""
    return [name for name in ids if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)]


def write(rows: Iterable[Row], place: Path) -> None:
    """Release rows: write their digests."""
    digests = {row.id: digest(row) for row in rows}
    data = msgspec.json.format(msgspec.json.encode(digests, order="sorted"), indent=2)
    place.write_bytes(data + b"\n")


if __name__ == "__main__":
    write(load_rows(), Path(__file__).with_name(_FILE))
