"""The targets, and what a run says about each of them.

Invariant: a target compares figures of one and the same run; one whose figures are missing
is neither met nor unmet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .figures import Figures

__all__ = ["TARGETS", "TIMES", "Medians", "Ratio", "Target", "Verdict", "spread", "verdicts"]

Medians: TypeAlias = Mapping[str, Mapping[str, Figures]]
"""Figures by scenario and contestant."""
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Target:
    """What a ratio (or an amount) may be at most."""

    name: str
    limit: float
    unit: str
    measured: Callable[[Medians], float]
    """Raises `KeyError` where the run does not say."""
    busy: Callable[[Medians], float] | None = None
    """The same by time on a processor, which others on the machine disturb less."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target and what was measured, if it was."""

    target: Target
    measured: float | None
    busy: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met, by every clock that was read; None where none was."""
        if self.measured is None:
            return None
        return max(self.measured, self.busy or 0.0) <= self.target.limit

    def __str__(self) -> str:
        if self.measured is None:
            return "not measured"
        busy = "" if self.busy is None else f" ({self.busy:.2f}{self.target.unit} of CPU)"
        said = "met" if self.met else "not met"
        return f"{self.measured:.2f}{self.target.unit}{busy}, {said}"


def spread(
    measured: Callable[[Medians], float] | None, rounds: Sequence[Medians]
) -> tuple[float, float] | None:
    """The least and the most that single rounds say; None where fewer than two say anything."""
    said = [each for found in rounds if (each := _said(measured, found)) is not None]
    return (min(said), max(said)) if len(said) > 1 else None


def verdicts(found: Medians) -> Iterator[Verdict]:
    """What a run says about each target."""
    for target in TARGETS:
        yield Verdict(target, _said(target.measured, found), _said(target.busy, found))


def _said(measured: Callable[[Medians], float] | None, found: Medians) -> float | None:
    try:
        return measured(found) if measured else None
    except KeyError:
        return None


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure of a contestant's, by one of another or another one of its own."""

    scenario: str
    figure: str
    mine: str = "treadle"
    other: str = "floor"
    by: str = ""
    """The other figure, where it is not the same."""

    def __call__(self, found: Medians) -> float:
        return found[self.scenario][self.mine][self.figure] / self.beside(found)

    def beside(self, found: Medians) -> float:
        """What it is measured by."""
        return found[self.scenario][self.other][self.by or self.figure]

    @property
    def unit(self) -> str:
        """The unit of both figures."""
        return _UNITS[self.figure.rpartition("_")[2]]


_UNITS = {"ms": "ms", "us": "µs", "mb": "MB"}


def _growth(unit: str) -> Callable[[Medians], float]:
    """How turn 1,000 compares with turn 10, less what sending more bytes costs anyone.

    That is what it costs the loop that only appends bytes.
    """

    def measured(found: Medians) -> float:
        ours, bare = found["turns"]["treadle"], found["turns"]["raw"]
        sending = max(0.0, bare[f"turn_1000_{unit}"] - bare[f"turn_10_{unit}"])
        return (ours[f"turn_1000_{unit}"] - sending) / ours[f"turn_10_{unit}"]

    return measured


def _memory(found: Medians) -> float:
    """The worst ratio over scenarios of one thread."""
    scenarios = [each for each in ("cold_start", "tool_loop", "deltas", "turns") if each in found]
    if not scenarios:
        raise KeyError("peak_mb")
    return max(Ratio(each, "peak_mb")(found) for each in scenarios)


def _per_thread(found: Medians) -> float:
    return found["threads_many"]["treadle"]["mb_each"]


def _resumed(scenario: str, unit: str = "ms") -> Ratio:
    return Ratio(scenario, f"resumed_{unit}", other="treadle", by=f"new_{unit}")


_TOGETHER = Ratio("threads_many", "together_cpu_ms", other="treadle", by="alone_cpu_ms")
TARGETS = (
    Target(
        "cold start of `treadle exec`, beside `codex exec`",
        0.8,
        TIMES,
        Ratio("cold_start", "first_request_ms", "treadle_exec", "codex"),
        Ratio("cold_start", "process_cpu_ms", "treadle_exec", "codex"),
    ),
    Target(
        "a plain turn, the 100th, beside the floor",
        6.0,
        TIMES,
        Ratio("turns", "turn_100_ms"),
        Ratio("turns", "turn_100_cpu_ms"),
    ),
    Target(
        "the 5th tool round, beside the floor",
        5.0,
        TIMES,
        Ratio("tool_loop", "round_5_ms"),
        Ratio("tool_loop", "round_cpu_ms"),
    ),
    Target(
        "the 55th tool round, beside the floor",
        5.0,
        TIMES,
        Ratio("tool_loop", "round_55_ms"),
        Ratio("tool_loop", "round_cpu_ms"),
    ),
    Target(
        "a streamed delta, beside the floor",
        1.5,
        TIMES,
        Ratio("deltas", "delta_us"),
        Ratio("deltas", "delta_cpu_us"),
    ),
    Target(
        "a command in the sandbox, beside a plain subprocess",
        4.0,
        TIMES,
        Ratio("command_loop", "round_55_ms"),
        Ratio("command_loop", "round_cpu_ms"),
    ),
    Target(
        "lossless beside linear, a turn",
        1.1,
        TIMES,
        Ratio("turns", "turn_100_ms", other="treadle_linear"),
        Ratio("turns", "turn_100_cpu_ms", other="treadle_linear"),
    ),
    Target(
        "lossless beside linear, a tool round",
        1.1,
        TIMES,
        Ratio("tool_loop", "round_55_ms", other="treadle_linear"),
        Ratio("tool_loop", "round_cpu_ms", other="treadle_linear"),
    ),
    Target(
        "turn 1,000 beside turn 10, beyond the bytes",
        1.3,
        TIMES,
        _growth("ms"),
        _growth("cpu_ms"),
    ),
    Target("peak memory of a thread, beside the floor", 2.0, TIMES, _memory),
    Target("memory of each of 1,000 threads at once", 0.15, " MB", _per_thread),
    Target("a turn of 1,000 threads at once, beside one alone", 1.0, TIMES, _TOGETHER, _TOGETHER),
    Target(
        "a turn after 100,000 items, beside a new thread's",
        1.5,
        TIMES,
        _resumed("resume_long"),
        _resumed("resume_long", "cpu_ms"),
    ),
    Target(
        "a turn after 1,000,000 items, beside a new thread's",
        1.5,
        TIMES,
        _resumed("resume_huge"),
        _resumed("resume_huge", "cpu_ms"),
    ),
)
"""Everything is on: durable log, ledger, fragments, hooks, the lossless engine."""
