"""Findings: the rows of an audit, and its report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

__all__ = ["KNOWN", "ROWS", "Finding", "Report"]

ROWS: dict[str, str] = {
    "lost": "acknowledged items lost",
    "doubled": "items doubled",
    "turns_lost": "acknowledged turns lost",
    "advanced_twice": "turns advanced twice",
    "not_advanced": "completed turns that their engine never got",
    "open_calls": "calls without a result",
    "extra_results": "calls with more than one result",
    "done_twice": "side effects done twice",
    "not_done": "results without their side effect",
    "orphans": "orphan processes",
    "breaks": "unexplained prefix breaks",
    "differing": "requests that the log does not give again, byte for byte",
    "secrets": "secrets found in databases, logs and files",
    "damaged": "damaged databases",
}
"""Every kind of defect, in the order of the table."""

KNOWN: dict[str, str] = {
    "foreign_secrets": "files of another program that hold a secret which a provider told it",
}
"""What is counted and is no defect of Treadle's."""


class Finding(Struct, frozen=True):
    """One defect: its row, where it is, and what it is."""

    row: str
    where: str
    what: str


class Report(Struct, frozen=True):
    """What an audit found, and how much it looked at."""

    findings: tuple[Finding, ...] = ()
    looked: Mapping[str, int] = {}
    """What there was to look at: threads, entries, turns, calls, requests, files."""

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of defects in each row."""
        found = Counter(finding.row for finding in self.findings)
        others = sorted(set(found) - set(ROWS) - set(KNOWN))
        return {row: found[row] for row in (*ROWS, *others, *KNOWN)}

    @property
    def clean(self) -> bool:
        """Return whether there are no defects besides the known ones."""
        return all(finding.row in KNOWN for finding in self.findings)

    def merge(self, *others: Report) -> Report:
        """Return this report and `others` as one."""
        looked = Counter(dict(self.looked))
        for other in others:
            looked.update(other.looked)
        findings = (finding for each in (self, *others) for finding in each.findings)
        return Report(tuple(findings), dict(looked))

    @staticmethod
    def of(findings: Iterable[Finding], **looked: int) -> Report:
        """Return a report of one part of the audit."""
        return Report(tuple(findings), looked)
