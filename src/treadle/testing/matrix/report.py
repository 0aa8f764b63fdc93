"""Reports: the matrix as a page, and what came of a run.

Owns how rows and results are shown. Invariant: the page is made from what ships beside it,
the rows and `held.md`, so that it can be held against them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import resources

from .row import DOMAINS, SHARED, LeftOut, Row
from .runner import Result

__all__ = ["page", "summary", "with_deferred"]

_HEAD = """\
# The contract matrix

What Treadle promises about its policies, one row each. This page is made from the rows in
`src/treadle/testing/matrix/rows/` by `treadle contracts --page`; `treadle contracts` and the tests
play each row on every harness that it names, `shared` being the policy itself, where no harness has
a part in it. [Running the matrix](matrix.md) says how rows are played, added and changed. What is
no row because it takes a process to be killed, or forty turns, stands
[at the end](#on-codex-seed-000s-test-plan) with the tests that hold it;
[engine contracts](engine-contracts.md) goes through context engines.
"""


def summary(results: Iterable[Result]) -> str:
    """The last line of a run."""
    count = Counter(result.status for result in results)
    return f"{count['passed']} passed, {count['failed']} failed"


def with_deferred(results: Iterable[Result]) -> str:
    """What was not played and why, a line each; nothing where all was."""
    waiting = [each for each in results if each.status == "deferred"]
    return "\n".join(sorted({f"{each.id} is deferred: {each.reason}" for each in waiting}))


def page(rows: Sequence[Row], left_out: Sequence[LeftOut] = ()) -> str:
    """The documentation page of the matrix."""
    parts = [_HEAD, _counts(rows)]
    for domain in DOMAINS:
        found = [row for row in rows if row.domain == domain]
        if found:
            parts.append(f"## {domain.capitalize()}\n\n{_table(found)}")
    if left_out:
        parts.append(_omissions(left_out))
    return "\n".join([*parts, _held()])


def _held() -> str:
    """The promises about the Codex harness that tests of ours hold, by their names."""
    return (resources.files(__package__) / "held.md").read_text(encoding="utf-8")


def _counts(rows: Sequence[Row]) -> str:
    played = Counter(name for row in rows for name in row.harnesses if not row.deferred)
    order = sorted(played, key=lambda name: (name != SHARED, name))
    told = ", ".join(f"{played[name]} on `{name}`" for name in order)
    return f"{len(rows)} rows: {told}; {sum(bool(row.deferred) for row in rows)} deferred.\n"


def _table(rows: Sequence[Row]) -> str:
    lines = ["| row | promise | played on | from |", "|---|---|---|---|"]
    for row in rows:
        title = f"{row.title} (deferred: {row.deferred})" if row.deferred else row.title
        played = ", ".join(row.harnesses)
        lines.append(f"| {row.id} | {_cell(title)} | {played} | {_cell(row.source)} |")
    return "\n".join([*lines, ""])


def _omissions(left_out: Sequence[LeftOut]) -> str:
    lines = ["## Left out", "", "Rows of the sources that are not among ours.", ""]
    lines += ["| domain | rows | why |", "|---|---|---|"]
    lines += [f"| {each.domain} | {_cell(each.ids)} | {_cell(each.reason)} |" for each in left_out]
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
