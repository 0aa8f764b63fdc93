"""Reports: what an import did.

Owns the values that a host or a command shows. Invariant: `added` and `present` count
records of files, and together with the tally they account for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from .tally import Tally

__all__ = ["Brought", "ImportReport", "Skipped", "State", "report_of"]

State: TypeAlias = Literal["new", "grown", "unchanged", "forked", "apart"]
"""``forked``: the thread had gone on otherwise. ``apart``: it has nothing in common with it."""


class Brought(Struct, kw_only=True):
    """One conversation, and the thread it is in."""

    thread: str
    """Empty where a dry run would make one."""
    title: str
    source: str
    """The conversation's identity: its format and its own name."""
    file: str
    state: State
    added: int = 0
    present: int = 0


class Skipped(Struct, frozen=True):
    """A file that was not read."""

    file: str
    reason: str


class ImportReport(Struct, frozen=True, kw_only=True):
    """All that an import did."""

    threads: tuple[Brought, ...]
    added: int
    present: int
    kept: Mapping[str, int]
    left_out: Mapping[str, int]
    abandoned: int
    torn: int
    malformed: int
    too_long: int
    skipped: tuple[Skipped, ...]
    problems: tuple[str, ...]


def report_of(threads: list[Brought], tally: Tally, skipped: list[Skipped]) -> ImportReport:
    """The report of an import that is over."""
    return ImportReport(
        threads=tuple(threads),
        added=sum(each.added for each in threads),
        present=sum(each.present for each in threads),
        kept=dict(tally.kept.most_common()),
        left_out=dict(tally.left_out.most_common()),
        abandoned=tally.abandoned,
        torn=tally.torn,
        malformed=tally.malformed,
        too_long=tally.too_long,
        skipped=tuple(skipped),
        problems=tuple(tally.complaints),
    )
