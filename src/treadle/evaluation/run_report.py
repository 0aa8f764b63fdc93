"""The report of a run: its results as a table, and as JSON.

Owns the sums and the words for figures. Invariants: the same results give the same bytes; and
what was not measured is shown as such, never as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from ..core.money import Bill
from .results import AttemptResult
from .run_directory import RunPlan

__all__ = ["COLUMNS", "Summed", "markdown_table", "rows_of", "summed", "sums_by_task", "trouble"]

NONE = "-"


class Summed(Struct, frozen=True, kw_only=True):
    """The results of some attempts, added up."""

    name: str
    attempts: int
    solved: int
    graded: int
    """Attempts whose tests gave a reward."""
    cost: Bill
    input_tokens: int
    cached_tokens: int | None
    output_tokens: int
    requests: int
    sent_bytes: int | None
    shared_bytes: int | None
    breaks: int
    unexplained: int
    seconds: float

    @property
    def cached_share(self) -> float | None:
        """Return the part of the input that came from a cache."""
        if self.cached_tokens is None or not self.input_tokens:
            return None
        return self.cached_tokens / self.input_tokens

    @property
    def shared_share(self) -> float | None:
        """Return the part of the bytes with which requests began like the one before."""
        if self.shared_bytes is None or not self.sent_bytes:
            return None
        return self.shared_bytes / self.sent_bytes


def summed(name: str, results: Sequence[AttemptResult]) -> Summed:
    """Return the sum of some results."""
    figures = [each.figures for each in results]
    return Summed(
        name=name,
        attempts=len(results),
        solved=sum(each.solved for each in results),
        graded=sum(each.reward is not None for each in results),
        cost=sum((each.cost for each in figures), start=Bill()),
        input_tokens=sum(each.input_tokens for each in figures),
        cached_tokens=_sum_known(each.cached_tokens for each in figures),
        output_tokens=sum(each.output_tokens for each in figures),
        requests=sum(each.requests for each in figures),
        sent_bytes=_sum_known(each.sent_bytes for each in figures),
        shared_bytes=_sum_known(each.shared_bytes for each in figures),
        breaks=sum(each.broken for each in figures),
        unexplained=sum(each.unexplained for each in figures),
        seconds=sum(each.seconds for each in results),
    )


def sums_by_task(plan: RunPlan, results: Sequence[AttemptResult]) -> list[Summed]:
    """Return the sums of every task that has a result, in the order of the plan."""
    by_task = {task.name: [r for r in results if r.task == task.name] for task in plan.tasks}
    return [summed(name, found) for name, found in by_task.items() if found]


def _sum_known(figures: Iterable[int | None]) -> int | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


def _share(share: float | None) -> str:
    return NONE if share is None else f"{share:.1%}"


COLUMNS: tuple[tuple[str, Callable[[Summed], str]], ...] = (
    ("task", lambda row: row.name),
    ("solved", lambda row: f"{row.solved}/{row.attempts}"),
    ("cost", lambda row: str(row.cost)),
    ("input", lambda row: f"{row.input_tokens:,}"),
    ("cached", lambda row: _share(row.cached_share)),
    ("output", lambda row: f"{row.output_tokens:,}"),
    ("requests", lambda row: f"{row.requests:,}"),
    ("shared", lambda row: _share(row.shared_share)),
    ("breaks", lambda row: f"{row.breaks:,}"),
    ("time", lambda row: f"{row.seconds:,.1f} s"),
)


def rows_of(plan: RunPlan, results: Sequence[AttemptResult]) -> list[list[str]]:
    """Return the rows of the table: one for each task, and the sum of all."""
    sums = [*sums_by_task(plan, results), summed("all", results)]
    return [[shown(each) for _, shown in COLUMNS] for each in sums]


def markdown_table(plan: RunPlan, results: Sequence[AttemptResult]) -> str:
    """Return the table as Markdown, with what went wrong below it."""
    head = "| " + " | ".join(name for name, _ in COLUMNS) + " |"
    line = "|---|" + "---:|" * (len(COLUMNS) - 1)
    rows = ["| " + " | ".join(row) + " |" for row in rows_of(plan, results)]
    said = [f"- {each.task} #{each.attempt}: {why}" for each in results if (why := trouble(each))]
    parts = ["\n".join((head, line, *rows)), *(("\n".join(said),) if said else ())]
    return "\n\n".join((f"# {plan.model}, {plan.harness}, {plan.engine}", *parts)) + "\n"


def trouble(result: AttemptResult) -> str:
    """Return why an attempt is not solved, where that is known."""
    if result.ended != "completed":
        return f"{result.ended}: {result.error}" if result.error else result.ended
    return result.verifier_error
