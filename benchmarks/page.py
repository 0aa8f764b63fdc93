"""The peers' part of `docs/benchmarks.md`, made from the committed results alone.

Owns what stands between the two markers of the page, and asks `plots` for the images. Invariant:
the same results give the same text; what people wrote around it stays as it is.

    python -m benchmarks.page [--json FILE] [--no-plots]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .growth import AXES, growth_text, read_growth
from .parts import table as parts_table
from .peers.contestants import CONTESTANTS
from .peers.figures import STOPS, Figures
from .peers.results import COMMITTED, Results
from .peers.scenarios import SCENARIOS
from .peers.targets import TIMES, Medians, Ratio, spread, verdicts

__all__ = [
    "BEGIN",
    "END",
    "GROWTH_BEGIN",
    "GROWTH_END",
    "PAGE",
    "between",
    "generated_text",
    "replace_generated",
]

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
IMAGES = ROOT / "docs" / "images"
BEGIN = "<!-- peers: made by `python -m benchmarks.page`, do not edit -->"
END = "<!-- peers: end -->"
GROWTH_BEGIN = "<!-- growth: made by `python -m benchmarks.page`, do not edit -->"
GROWTH_END = "<!-- growth: end -->"
NONE = "n/a"
MEMORY = ("cold_start", "tool_loop", "command_loop", "deltas", "turns", "threads", "resume")


def generated_text(results: Results) -> str:
    """All that stands between the markers."""
    return "\n\n".join(_sections(results))


def replace_generated(page: str, text: str, first: str = BEGIN, last: str = END) -> str:
    """A page with `text` between its markers."""
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise ValueError(f"the page lacks the markers {first!r} and {last!r}; put them in")
    return f"{before}{first}\n\n{text}\n\n{last}{after}"


def between(page: str, first: str = BEGIN, last: str = END) -> str:
    """What stands between the markers of a page."""
    return page.partition(first)[2].partition(last)[0].strip()


def _sections(results: Results) -> Iterator[str]:
    yield _opening(results)
    yield "### Targets"
    yield (
        "Treadle has everything on: the durable log, the ledger, fragments, hooks, lossless. "
        "Behind a ratio stands what it is measured by (the floor, Codex, linear, a new thread), in "
        "brackets what single rounds said; what runs once has no spread. A target is met where "
        "both clocks say so."
    )
    yield _targets(results)
    yield "### Time"
    yield _table(results, TIME)
    yield "![A tool round](images/peers-rounds.png)"
    yield "![A turn, by the length of the thread](images/peers-turns.png)"
    yield "### Time on a processor"
    yield _processor_note()
    yield _table(results, PROCESSOR)
    yield "### Many threads, long threads"
    yield _table(results, MANY)
    yield _notes()
    yield "### Memory"
    yield "Megabytes of the process that does the work, at its peak."
    yield _memory(results)
    yield "![Peak memory](images/peers-memory.png)"
    yield "### The prefix"
    yield _prefix_note()
    yield _table(results, PREFIX)
    if results.parts:
        yield "### Where our own time goes"
        yield _parts_note()
        yield parts_table(results.parts)
    if any(results.failures.values()):
        yield "### What could not be measured"
        yield "\n".join(_failures(results))


def _opening(results: Results) -> str:
    told = ", ".join(
        f"{CONTESTANTS[name].title} {version}" for name, version in results.versions.items()
    )
    machine = results.machine
    return (
        f"Measured on {results.measured}: {machine['cores']} cores, shared with others (a load of "
        f"{machine['load']:.0f} when it began), {machine['system']}, Python {machine['python']}. "
        f"{told}.{' ' if results.remark else ''}{results.remark}"
    )


def _targets(results: Results) -> str:
    lines = ["| target | at most | measured | by processor time | |", "|---|---:|---:|---:|---|"]
    rounds = results.rounds
    for verdict in verdicts(results.least):
        target = verdict.target
        beside = (_beside(each, results.least) for each in (target.measured, target.busy))
        measured = _with_spread(
            verdict.measured, target.unit + next(beside), spread(target.measured, rounds)
        )
        busy = _with_spread(verdict.busy, target.unit + next(beside), spread(target.busy, rounds))
        word = {True: "met", False: "**not met**", None: "not measured"}[verdict.met]
        limit = f"{target.limit:g}{target.unit}"
        lines.append(f"| {target.name} | {limit} | {measured} | {busy} | {word} |")
    return "\n".join(lines)


def _beside(measured: Callable[[Medians], float] | None, found: Medians) -> str:
    """What a ratio is to, where it was measured."""
    if not isinstance(measured, Ratio):
        return ""
    try:
        return f" {_plain(measured.beside(found))} {measured.unit}"
    except KeyError:
        return ""


def _with_spread(figure: float | None, unit: str, around: tuple[float, float] | None) -> str:
    """A figure, and between which two those of single rounds lie."""
    if figure is None:
        return NONE
    told = f"{figure:.2f}{unit}"
    return told if around is None else f"{told} ({around[0]:.2f} to {around[1]:.2f})"


Cell = Callable[[Results, str], str]


def _figure(scenario: str, names: Sequence[str], shown: Callable[[float], str]) -> Cell:
    """Figures of a scenario, with the ratio of the last to the floor's; shares have none."""

    def cell(results: Results, contestant: str) -> str:
        by_name = results.least.get(scenario, {})
        figures = by_name.get(contestant, {})
        if not all(name in figures for name in names):
            return NONE
        told = " / ".join(shown(figures[name]) for name in names)
        if shown is _percent:
            return told
        return f"{told}{_ratio(figures, by_name.get('floor', {}), names[-1])}"

    return cell


def _ratio(figures: Figures, floor: Figures, name: str) -> str:
    if not floor.get(name):
        return ""
    times = figures[name] / floor[name]
    return f" ({times:.{0 if times >= 10 else 1}f}{TIMES})"


def _plain(figure: float) -> str:
    """A figure with as many digits as it deserves."""
    if figure >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.1f}" if figure >= 10 else f"{figure:.2f}"


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1e3:.2f} s"


def _percent(share: float) -> str:
    return f"{share:.1%}"


_ROUNDS = ("round_5_ms", "round_55_ms")
TIME: dict[str, Cell] = {
    "cold start": _figure("cold_start", ("first_request_ms",), _seconds),
    "tool round, 5th / 55th, ms": _figure("tool_loop", _ROUNDS, _plain),
    "with a real command, ms": _figure("command_loop", _ROUNDS, _plain),
    "a delta, µs": _figure("deltas", ("delta_us",), _plain),
    "a turn at 10 / 100 / 500 / 1,000, ms": _figure(
        "turns", [f"turn_{stop}_ms" for stop in STOPS], _plain
    ),
}
PROCESSOR: dict[str, Cell] = {
    "tool round, ms": _figure("tool_loop", ("round_cpu_ms",), _plain),
    "with a real command, ms": _figure("command_loop", ("round_cpu_ms",), _plain),
    "a delta, µs": _figure("deltas", ("delta_cpu_us",), _plain),
    "a turn at 10 / 100 / 500 / 1,000, ms": _figure(
        "turns", [f"turn_{stop}_cpu_ms" for stop in STOPS], _plain
    ),
}
MANY: dict[str, Cell] = {
    "200 threads, s": _figure("threads", ("threads_s",), _plain),
    "MB for each": _figure("threads", ("mb_each",), _plain),
    "1,000 threads, s": _figure("threads_many", ("threads_s",), _plain),
    "MB for each of them": _figure("threads_many", ("mb_each",), _plain),
    "new / resumed after 1,000 turns, ms": _figure("resume", ("new_ms", "resumed_ms"), _plain),
    "new / resumed after 100,000 items, ms": _figure(
        "resume_long", ("new_ms", "resumed_ms"), _plain
    ),
    "new / resumed after 1,000,000 items, ms": _figure(
        "resume_huge", ("new_ms", "resumed_ms"), _plain
    ),
}
PREFIX: dict[str, Cell] = {
    f"{title}, {what}": _figure(scenario, (name,), _percent)
    for scenario, title in (("tool_loop", "tool loop"), ("turns", "turns"))
    for name, what in (("prefix_share", "as read"), ("wire_share", "on the wire"))
}


def _table(results: Results, columns: dict[str, Cell]) -> str:
    """One row for each contestant that has at least one of the figures."""
    lines = [f"| | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for name, contestant in CONTESTANTS.items():
        cells = [cell(results, name) for cell in columns.values()]
        if any(cell != NONE for cell in cells):
            lines.append(f"| {contestant.title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _memory(results: Results) -> str:
    columns = {
        SCENARIOS[scenario].short: _figure(scenario, ("peak_mb",), lambda mb: f"{mb:,.0f}")
        for scenario in MEMORY
    }
    return _table(results, columns)


def _processor_note() -> str:
    return (
        "Others work on this machine too, and whoever computes for long is made to wait for them. "
        "This is what its process spent on a processor, in all threads and with the commands that "
        "it ran (for Codex its server alone); turns from the question to the end of the answer, "
        "the tool round from one call of the tool to the next, the command as the mean of 60."
    )


def _notes() -> str:
    return (
        "A thread is opened, and the clock runs until its first request. Treadle, Codex and the "
        "OpenAI Agents SDK read a past from their disk, Pydantic AI from the file its host keeps; "
        "the others have it in memory. Pasts of 100,000 items and more are far more than a window "
        "holds; they were measured with Treadle alone."
    )


def _prefix_note() -> str:
    return (
        "How much of what a request held its successor began with: in the order in which a model "
        "reads it (tools, instructions, items), and as bytes of the body, where fields behind the "
        "items end what is shared."
    )


def _parts_note() -> str:
    return (
        "`python -m benchmarks.parts`: time on a processor, in all threads. The whole is measured "
        "without a profiler, the shares with one, which makes many small functions look a little "
        "dearer than they are. C and the standard library count for whoever called them; `loop` is "
        "what runs a turn, `event loop` what asyncio does by itself. A delta bears its share of a "
        "long turn and a short one."
    )


def _failures(results: Results) -> Iterator[str]:
    for scenario, by_name in results.failures.items():
        for name, reason in by_name.items():
            yield f"- {CONTESTANTS[name].title}, {SCENARIOS[scenario].title}: {reason}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, default=COMMITTED)
    parser.add_argument("--no-plots", action="store_true")
    options = parser.parse_args()
    results = Results.read(options.json)
    growth = read_growth()
    page = replace_generated(PAGE.read_text(), generated_text(results))
    page = replace_generated(page, growth_text(growth), GROWTH_BEGIN, GROWTH_END)
    PAGE.write_text(page)
    if not options.no_plots:
        from .plots import draw, draw_growth

        draw(results, IMAGES)
        draw_growth(growth, {name: axis.title for name, axis in AXES.items()}, IMAGES)


if __name__ == "__main__":
    main()
