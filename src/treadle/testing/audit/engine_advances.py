"""Engines: whether each completed turn reached its engine exactly once.

Owns the rows about advancement. Reads the file of the lossless engine as it is on disk,
because the engine itself would repair what it finds.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from ...engines.lossless.engine import FILE
from ...store.contract import Store
from .evidence import Evidence
from .findings import Finding, Report

__all__ = ["audit_engine"]


class _Advance(NamedTuple):
    """A turn as the engine recorded it."""

    number: int
    first: int
    last: int


def library_of(home: Path) -> Path:
    """Return the path of the lossless engine's file in a home."""
    return home / "engines" / "lossless" / FILE


async def audit_engine(home: Path, store: Store, threads: list[str], evidence: Evidence) -> Report:
    """Return the differences between the log and the engine."""
    by_thread = _read_advances(library_of(home))
    findings: list[Finding] = []
    for thread in threads:
        rows = by_thread.get(thread, [])
        findings += _twice(thread, rows)
        if evidence.engines.get(thread) == "lossless":
            findings += await _missing(store, thread, rows)
    return Report.of(findings, advances=sum(map(len, by_thread.values())))


def _read_advances(path: Path) -> dict[str, list[_Advance]]:
    found: dict[str, list[_Advance]] = {}
    if not path.exists():
        return found
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT thread, number, first, last FROM turns ORDER BY number")
        for thread, *row in rows:
            found.setdefault(thread, []).append(_Advance(*row))
    return found


def _twice(thread: str, rows: list[_Advance]) -> Iterator[Finding]:
    for number, count in Counter(row.number for row in rows).items():
        if count > 1:
            yield Finding("advanced_twice", thread, f"turn {number} was noted {count} times")
    known = 0
    for row in rows:
        if row.first <= known:
            what = f"turn {row.number} tells entries {row.first} to {known} again"
            yield Finding("advanced_twice", thread, what)
        known = max(known, row.last)


async def _missing(store: Store, thread: str, rows: list[_Advance]) -> list[Finding]:
    line = await store.lineage(thread)
    if not line or line[-1].thread != thread:
        return []  # its writer died between the thread, or the fork, and the first entry
    own, turns = line[-1], await store.turns(thread)
    done = {turn.number for turn in turns if turn.state == "completed" and turn.first >= own.first}
    missing = sorted(done - {row.number for row in rows})
    return [Finding("not_advanced", thread, f"turn {number} was completed") for number in missing]
