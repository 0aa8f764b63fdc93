"""Released rows: the promises of the last release.

Owns the file of digests and the comparison with it. Invariant: a released promise is changed
or removed only with a line in the changelog that names its row.
`python -m treadle.testing.matrix.released` writes the file again, at a release.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path

import msgspec

from .contract_rows import ContractRow, load_rows

__all__ = [
    "broken_promises",
    "digest",
    "missing_from_changelog",
    "released_digests",
    "write_digests",
]

_FILE = "released.json"


def digest(row: ContractRow) -> str:
    """Return a digest of what a row promises, without its title, source and driver."""
    promise = (row.given, row.expected, sorted(row.harnesses), bool(row.deferred))
    return hashlib.sha256(msgspec.json.encode(promise, order="deterministic")).hexdigest()[:16]


def released_digests() -> dict[str, str]:
    """Return the digests of the released rows, by id."""
    found = resources.files(__package__) / _FILE
    return msgspec.json.decode(found.read_bytes(), type=dict[str, str])


def broken_promises(rows: Iterable[ContractRow], promised: Mapping[str, str]) -> dict[str, str]:
    """Return the released rows that were ``changed`` or are ``gone``, by id."""
    present = {row.id: digest(row) for row in rows}
    gone = {name: "gone" for name in promised if name not in present}
    changed = {
        name: "changed"
        for name, old in promised.items()
        if name in present and present[name] != old
    }
    return changed | gone


def missing_from_changelog(ids: Iterable[str], changelog: str) -> list[str]:
    """Return those of `ids` that the unreleased part of a changelog does not name."""
    part = re.search(r"^## \[Unreleased\]$(.*?)(?=^## \[|\Z)", changelog, re.DOTALL | re.MULTILINE)
    text = part[1] if part else ""
    return [name for name in ids if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)]


def write_digests(rows: Iterable[ContractRow], place: Path) -> None:
    """Write the digests of rows."""
    digests = {row.id: digest(row) for row in rows}
    data = msgspec.json.format(msgspec.json.encode(digests, order="sorted"), indent=2)
    place.write_bytes(data + b"\n")


if __name__ == "__main__":
    write_digests(load_rows(), Path(__file__).with_name(_FILE))
