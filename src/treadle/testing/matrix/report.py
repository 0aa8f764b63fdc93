"""Reports: the matrix as a page, and the results of a run.

Owns how rows and results are rendered. Invariant: the page is made only from files of this
package, the rows and `held.md`, so that a test can compare it with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import resources

from .contract_rows import DOMAINS, SHARED, ContractRow, LeftOut
from .runner import Result

__all__ = ["deferred_lines", "render_page", "summary"]

_HEAD = """\
# The contract matrix

What Treadle promises about its policies, one row each. `treadle contracts --page` generates this
page from the rows in `src/treadle/testing/matrix/rows/`. `treadle contracts` and the tests run
each row on every harness that it names; `shared` is the policy itself, without a harness.
[Running the matrix](matrix.md) explains how to run, add and change rows. Promises that need more
than a row, such as a killed process or forty turns, are
[at the end](#on-codex-more-than-a-row) with their tests;
[engine contracts](engine-contracts.md) lists the rules for context engines. The last column says
where a promise came from: one of the [documents](seeds.md) that Treadle began with, or `rc`, notes
on the contracts of other runtimes; neither is needed to read a row.
"""


def summary(results: Iterable[Result]) -> str:
    """Return the last line of a run."""
    count = Counter(result.status for result in results)
    return f"{count['passed']} passed, {count['failed']} failed"


def deferred_lines(results: Iterable[Result]) -> str:
    """Return a line for each deferred row with its reason; an empty text if there is none."""
    waiting = [each for each in results if each.status == "deferred"]
    return "\n".join(sorted({f"{each.id} is deferred: {each.reason}" for each in waiting}))


def render_page(rows: Sequence[ContractRow], left_out: Sequence[LeftOut] = ()) -> str:
    """Return the documentation page of the matrix."""
    parts = [_HEAD, _counts(rows)]
    for domain in DOMAINS:
        found = [row for row in rows if row.domain == domain]
        if found:
            parts.append(f"## {domain.capitalize()}\n\n{_table(found)}")
    if left_out:
        parts.append(_omissions(left_out))
    return "\n".join([*parts, _codex_promises()])


def _codex_promises() -> str:
    """Return the promises about the Codex harness, with the names of their tests."""
    return (resources.files(__package__) / "held.md").read_text(encoding="utf-8")


def _counts(rows: Sequence[ContractRow]) -> str:
    by_harness = Counter(name for row in rows for name in row.harnesses if not row.deferred)
    order = sorted(by_harness, key=lambda name: (name != SHARED, name))
    counts = ", ".join(f"{by_harness[name]} on `{name}`" for name in order)
    return f"{len(rows)} rows: {counts}; {sum(bool(row.deferred) for row in rows)} deferred.\n"


def _table(rows: Sequence[ContractRow]) -> str:
    lines = ["| row | promise | run on | from |", "|---|---|---|---|"]
    for row in rows:
        title = f"{row.title} (deferred: {row.deferred})" if row.deferred else row.title
        harnesses = ", ".join(row.harnesses)
        lines.append(f"| {row.id} | {_cell(title)} | {harnesses} | {_cell(row.source)} |")
    return "\n".join([*lines, ""])


def _omissions(left_out: Sequence[LeftOut]) -> str:
    lines = ["## Left out", "", "Rows of the sources that Treadle does not have.", ""]
    lines += ["| domain | rows | why |", "|---|---|---|"]
    lines += [f"| {each.domain} | {_cell(each.ids)} | {_cell(each.reason)} |" for each in left_out]
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
