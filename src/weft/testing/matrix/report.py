"""Reports: the matrix as a page, a table and JSON.

Owns how rows and results are shown. Invariant: the page is made from the rows alone, so
that it can be held against them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from .row import DOMAINS, Row
from .runner import Result

__all__ = ["page", "summary"]

_HEAD = """\
# The contract matrix

What Weft promises about its policies, one row each: made from the rows in
`src/weft/testing/matrix/rows/` by `weft contracts --page`, and played by `weft contracts` and
by the tests on every harness that a row names. [plan.md](plan.md) explains the domains,
[engine-contracts.md](engine-contracts.md) goes through context engines and the Codex harness.
"""


def summary(results: Iterable[Result]) -> str:
    """The last line of a run."""
    count = Counter(result.status for result in results)
    deferred = f", {count['deferred']} deferred" if count["deferred"] else ""
    return f"{count['passed']} passed, {count['failed']} failed{deferred}"


def page(rows: Sequence[Row]) -> str:
    """The documentation page of the matrix."""
    parts = [_HEAD, _counts(rows)]
    for domain in DOMAINS:
        found = [row for row in rows if row.domain == domain]
        if found:
            parts.append(f"## {domain.capitalize()}\n\n{_table(found)}")
    return "\n".join(parts)


def _counts(rows: Sequence[Row]) -> str:
    played = Counter(name for row in rows for name in row.harnesses if not row.deferred)
    told = ", ".join(f"{count} on `{name}`" for name, count in sorted(played.items()))
    return f"{len(rows)} rows: {told}.\n"


def _table(rows: Sequence[Row]) -> str:
    lines = ["| row | promise | harness | from |", "|---|---|---|---|"]
    for row in rows:
        title = row.title.replace("|", "\\|")
        if row.deferred:
            title += f" (deferred: {row.deferred})"
        lines.append(f"| {row.id} | {title} | {', '.join(row.harnesses)} | {row.source} |")
    return "\n".join([*lines, ""])
