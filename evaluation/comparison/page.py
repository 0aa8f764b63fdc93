"""The comparison's part of `docs/evaluation.md`, made from the committed results alone.

Owns what stands between the two markers of the page. Invariant: the same results give the same
text, and what people wrote around it stays as it is.

    python -m evaluation.comparison.page
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from .compared import COMMITTED, Compared
from .contenders import CONTENDERS
from .trial import TrialResult

__all__ = ["BEGIN", "END", "PAGE", "between", "generated_text", "write_page"]

PAGE = Path(__file__).parent.parent.parent / "docs" / "evaluation.md"
BEGIN = "<!-- comparison: made by `make eval`, do not edit -->"
END = "<!-- comparison: end -->"
FILLS = (
    "OPENAI_API_KEY=… .venv/bin/python -m evaluation.comparison --upstream https://api.openai.com"
)

Cell = Callable[[Sequence[TrialResult]], str]


def generated_text(results: Compared) -> str:
    """Return all that stands between the markers."""
    return "\n\n".join(_sections(results))


def between(page: str) -> str:
    """Return what stands between the markers of a page."""
    return page.partition(BEGIN)[2].partition(END)[0].strip()


def write_page(results: Compared) -> None:
    """Put the text between the markers of the page."""
    page = PAGE.read_text()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page lacks the markers {BEGIN!r} and {END!r}; put them in")
    PAGE.write_text(f"{before}{BEGIN}\n\n{generated_text(results)}\n\n{END}{after}")


def _sections(results: Compared) -> Iterator[str]:
    yield _opening(results)
    yield "### The same tasks"
    solved = _solved if results.real else _empty
    yield _table(results.plain, {"solved": solved, **SENT})
    if results.killed:
        yield "### Killed in the middle"
        yield (
            "Every second of these tasks again. Each process is killed with `kill -9` once, when a "
            "request has left it and before its answer came; which one is drawn by chance for "
            "each task, the same for everybody. "
            "Then the same command is given once more. Conversation kept is the part of what was "
            "said since the first request with which the next process goes on."
        )
        yield _table(results.killed, _killed_columns(results))
    if results.long:
        task = results.long[0].task
        yield "### Beyond the window"
        yield (
            f"The task `{task}`: 72 rooms of 24 kB, so that no window of 272,000 tokens holds "
            "them all. Facts kept is the share of the banners that were remembered, which only a "
            "real model can show; doors tried again is work that was repeated."
        )
        facts = _facts if results.real else _empty
        yield _table(results.long, {"facts kept": facts, **SENT, "doors tried again": _doors})


def _opening(results: Compared) -> str:
    who = f"`{results.model}` answered." if results.real else _stand_in(results)
    priced = (
        f" Costs are those of `{results.model}` by its list price, a token for four bytes, and "
        "every prefix that was sent before from the cache."
    )
    missing = [each.title for each in CONTENDERS.values() if not _trials(results, each.name)]
    left_out = f" Not installed: {', '.join(missing)}." if missing else ""
    versions = " and ".join(f"{name} {number}" for name, number in results.versions.items())
    measured = f"{results.measured}, with {versions}" if versions else results.measured
    return f"Measured on {measured}. {who}{priced}{left_out}"


def _stand_in(results: Compared) -> str:
    return (
        "No model answered but a stand-in that knows the solutions, the same for everybody. "
        "So what was solved and which facts were kept is left empty; with a key, this fills "
        f"it:\n\n```console\n$ {FILLS}\n```\n\n"
        f"It costs about ${_dollars(results):.0f}."
    )


def _trials(results: Compared, name: str) -> list[TrialResult]:
    every = (*results.plain, *results.killed, *results.long)
    return [trial for trial in every if trial.contender == name]


def _table(trials: Sequence[TrialResult], columns: dict[str, Cell]) -> str:
    names = list(dict.fromkeys(trial.contender for trial in trials))
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for name in names:
        own = [trial for trial in trials if trial.contender == name]
        cells = [cell(own) for cell in columns.values()]
        lines.append(f"| {CONTENDERS[name].title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _solved(trials: Sequence[TrialResult]) -> str:
    return f"{sum(trial.reward == 1.0 for trial in trials)} of {len(trials)}"


def _empty(trials: Sequence[TrialResult]) -> str:
    del trials
    return ""


def _sum(trials: Iterable[TrialResult], name: str) -> float:
    return float(sum(getattr(trial.figures, name) for trial in trials))


def _shared(trials: Sequence[TrialResult]) -> str:
    whole = _sum(trials, "sent_bytes")
    weighed = sum(trial.figures.shared * trial.figures.sent_bytes for trial in trials)
    return f"{weighed / whole:.1%}" if whole else "n/a"


SENT: dict[str, Cell] = {
    "requests": lambda trials: f"{_sum(trials, 'requests'):,.0f}",
    "sent, kB": lambda trials: f"{_sum(trials, 'sent_bytes') / 1e3:,.0f}",
    "prefix shared": _shared,
    "breaks": lambda trials: f"{_sum(trials, 'breaks'):,.0f}",
    "cost": lambda trials: f"${_sum(trials, 'dollars'):.2f}",
}


def _dollars(results: Compared) -> float:
    return _sum((*results.plain, *results.killed, *results.long), "dollars")


def _facts(trials: Sequence[TrialResult]) -> str:
    return f"{sum(trial.rewards.get('facts', 0.0) for trial in trials) / len(trials):.0%}"


def _doors(trials: Sequence[TrialResult]) -> str:
    return f"{sum(trial.rewards.get('doors_tried_again', 0.0) for trial in trials):,.0f}"


def _again(trials: Sequence[TrialResult]) -> str:
    return f"{sum(trial.steps_again for trial in trials):,}"


def _killed_columns(results: Compared) -> dict[str, Cell]:
    before = {(each.contender, each.task): each.reward for each in results.plain}

    def as_before(trials: Sequence[TrialResult]) -> str:
        killed = [each for each in trials if each.killed_at is not None]
        same = sum(before.get((each.contender, each.task)) == each.reward for each in killed)
        return f"{same} of {len(killed)}"

    found = {"graded as before": as_before, "conversation kept": _kept, **SENT}
    # Only the stand-in counts its steps.
    return found if results.real else {**found, "steps again": _again}


def _kept(trials: Sequence[TrialResult]) -> str:
    known = [trial.kept for trial in trials if trial.kept is not None]
    return f"{sum(known) / len(known):.0%}" if known else "n/a"


if __name__ == "__main__":
    write_page(Compared.read(COMMITTED))
