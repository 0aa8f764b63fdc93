"""The report of an import, and the counts it is made of.

Owns the values that a host or a command shows. Invariant: `added` and `present` count
records of files, and together with the other counts they account for every record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = [
    "MOST_PROBLEMS",
    "ImportCounts",
    "ImportReport",
    "ImportState",
    "ImportedThread",
    "SkippedFile",
    "report_of",
]

MOST_PROBLEMS = 20
"""A report holds this many sentences about problems; the counts go on."""

ImportState: TypeAlias = Literal["new", "grown", "unchanged", "forked", "apart"]
"""``forked``: the thread and the file went on differently. ``apart``: they share nothing."""


class ImportedThread(Struct, kw_only=True):
    """One conversation, and the thread it is in."""

    thread: str
    """Empty where a dry run would make one."""
    title: str
    name: str = ""
    """What people are shown: its title, or how the first message that was new begins."""
    source: str
    """The conversation's identity: its format and its own name."""
    file: str
    state: ImportState
    added: int = 0
    present: int = 0


class SkippedFile(Struct, frozen=True):
    """A file that was not read."""

    file: str
    reason: str


class ImportReport(Struct, frozen=True, kw_only=True):
    """Everything that an import did."""

    threads: tuple[ImportedThread, ...]
    added: int
    present: int
    kept: Mapping[str, int]
    left_out: Mapping[str, int]
    abandoned: int
    torn: int
    malformed: int
    too_long: int
    skipped: tuple[SkippedFile, ...]
    problems: tuple[str, ...]


@dataclass(slots=True)
class ImportCounts:
    """Counts over one or more files."""

    kept: Counter[str] = field(default_factory=Counter)
    """Records that are stored verbatim and that no model sees, by type."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Records that only repeat others or are for the other agent's own use, by type."""
    abandoned: int = 0
    """Records of branches that are not part of the conversation."""
    torn: int = 0
    malformed: int = 0
    too_long: int = 0
    problems: list[str] = field(default_factory=list)

    def add_problem(self, sentence: str) -> None:
        """Add a sentence to the report, unless there are many."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(sentence)


def report_of(
    threads: list[ImportedThread], counts: ImportCounts, skipped: list[SkippedFile]
) -> ImportReport:
    """Return the report of a finished import."""
    return ImportReport(
        threads=tuple(threads),
        added=sum(each.added for each in threads),
        present=sum(each.present for each in threads),
        kept=dict(counts.kept.most_common()),
        left_out=dict(counts.left_out.most_common()),
        abandoned=counts.abandoned,
        torn=counts.torn,
        malformed=counts.malformed,
        too_long=counts.too_long,
        skipped=tuple(skipped),
        problems=tuple(counts.problems),
    )
