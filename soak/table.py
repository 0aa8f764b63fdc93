"""The table: what a soak came to, for a terminal and for the page."""

from __future__ import annotations

from pathlib import Path

from soak.verdict import Result
from treadle.testing.audit.findings import KNOWN, ROWS

__all__ = ["BEGIN", "END", "OWN_ROWS", "table", "write_page"]

BEGIN = "<!-- soak: begin -->"
END = "<!-- soak: end -->"
OWN_ROWS = {
    "stuck": "threads that could not go on",
    "surprises": "hangs and errors that nobody expects",
}
_LOOKED = {
    "threads": "threads",
    "turns": "turns in their logs",
    "entries": "entries",
    "acknowledged": "items acknowledged",
    "calls": "calls",
    "requests": "requests rendered again",
    "advances": "turns noted by the lossless engine",
    "databases": "databases",
    "files": "files searched",
}


def table(result: Result) -> str:
    """All rows, as Markdown."""
    counts = result.report.counts
    rows = {title: counts.get(row, 0) for row, title in (ROWS | OWN_ROWS).items()}
    looked = {title: result.report.looked.get(name, 0) for name, title in _LOOKED.items()}
    memory = result.memory_per_hour
    lines = ["| found | |", "|---|---:|"]
    lines += [f"| {title} | {count:,} |" for title, count in rows.items()]
    lines += [f"| ({title}) | {counts[row]:,} |" for row, title in KNOWN.items()]
    growth = "too short to tell" if memory is None else f"{memory:+,.1f} MB"
    lines += [f"| memory growth per hour of a worker that is never struck | {growth} |"]
    lines += ["| **looked at** | |"]
    lines += [f"| {title} | {count:,} |" for title, count in looked.items()]
    lines += ["| **what happened** | |"]
    lines += [f"| {title} | {count:,} |" for title, count in result.done.items()]
    return "\n".join(lines)


def write_page(page: Path, result: Result) -> None:
    """Put the table between the marks of a page."""
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    minutes = result.seconds / 60
    head = f"{minutes:g} minutes, seed {result.seed}; the full disk was {result.disk}."
    page.write_text(f"{before}{BEGIN}\n{head}\n\n{table(result)}\n{END}{after}")
