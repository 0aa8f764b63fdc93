"""From the server's notes to figures.

A tool round, or a turn, is the client's time between an answer and the next request. A delta
is what a long answer takes beyond a short one, for each of its pieces. Single gaps jump, so a
figure is the median of the gaps around its place.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from .answers import DELTAS

__all__ = ["Figures", "Record", "figures", "gaps", "least", "medians", "prefix_share"]

Figures: TypeAlias = dict[str, float]
Record: TypeAlias = dict[str, int]

ROUNDS = (5, 55)
STOPS = (10, 100, 500, 1_000)
AROUND = 4
"""Neighbours on either side that a figure is the median of."""


def figures(
    scenario: str, started: int, records: Sequence[Record], report: Mapping[str, Any]
) -> Figures:
    """What a run shows, by the name of the figure.

    A report may tell that turns were run around some `stops` only, when threads were
    `opened`, what each turn spent on a processor, and all until each call. Raises `ValueError`
    where the requests are not those of the scenario.
    """
    if not records:
        raise ValueError("no request came")
    match scenario:
        case "cold_start":
            return {"first_request_ms": (records[0]["arrived"] - started) / 1e6}
        case "deltas":
            took = [(b["arrived"] - a["began"]) / 1e3 for a, b in pairwise(records)]
            spent = [each * 1e3 for each in report["spent_ms"]]
            return {"delta_us": delta(took), "delta_cpu_us": delta(spent)}
        case "tool_loop" | "command_loop":
            if records[-1]["results"] < len(records) - 1:
                raise ValueError("calls of the tool have failed")
            return _at("round", ROUNDS, 2, records) | {"round_cpu_ms": _busy(records, report)}
        case "turns":
            if "stops" in report:
                return _around(report["stops"], records, report["spent_ms"])
            found = _at("turn", STOPS, AROUND, records)
            for stop in STOPS:
                near = report["spent_ms"][stop - 1 - AROUND : stop + AROUND]
                found[f"turn_{stop}_cpu_ms"] = statistics.median(near)
            return found
        case "resume" | "resume_long" | "resume_huge":
            return _opened(report["opened"], records)
        case _:
            return {"requests": float(len(records))}


def _busy(records: Sequence[Record], report: Mapping[str, Any]) -> float:
    """Milliseconds on a processor from one call of the tool to the next.

    Where it cannot tell when it was called, a part of the whole turn, with what begins it.
    """
    called: Sequence[int] = report.get("called_ns", ())
    if len(called) > 1:
        return statistics.median(b - a for a, b in pairwise(called)) / 1e6
    return float(sum(report["spent_ms"]) / (len(records) - 1))


def gaps(records: Sequence[Record]) -> list[float]:
    """Milliseconds from each answer's last byte to the next request; the *n*-th at n - 1."""
    return [(after["arrived"] - before["done"]) / 1e6 for before, after in pairwise(records)]


def delta(took: Sequence[float]) -> float:
    """Microseconds for a piece of a long answer, from those of all; every second one is long."""
    # The first answer warms the client up.
    short, long = took[2::2], took[1::2]
    return (statistics.median(long) - statistics.median(short)) / DELTAS


def prefix_share(records: Sequence[Record], shared: str = "kept", whole: str = "read") -> float:
    """The part of what requests held that the ones after them began with; 1 where each goes on.

    Of what a model reads, or of the bytes on the wire (`shared`, `bytes`).
    """
    pairs = list(pairwise(records))
    possible = sum(before[whole] for before, _ in pairs)
    return sum(after[shared] for _, after in pairs) / possible if possible else 1.0


def _shares(records: Sequence[Record]) -> Figures:
    return {
        "prefix_share": prefix_share(records),
        "wire_share": prefix_share(records, "shared", "bytes"),
    }


def _at(name: str, places: Sequence[int], around: int, records: Sequence[Record]) -> Figures:
    took = gaps(records)
    found: Figures = {}
    for place in places:
        # The gap before request n ends turn n - 1 and begins turn n.
        near = took[max(0, place - 2 - around) : place - 1 + around]
        if len(took) < place - 1:
            raise ValueError(f"{len(records)} requests are too few")
        found[f"{name}_{place}_ms"] = statistics.median(near)
    return found | _shares(records)


def _around(
    stops: Sequence[tuple[int, int]], records: Sequence[Record], spent: Sequence[float]
) -> Figures:
    """Turns that were run around some places only, the past before them handed over."""
    found: Figures = {}
    first = 0
    for place, count in stops:
        near = records[first : first + count]
        if len(near) < count:
            raise ValueError(f"{len(records)} requests are too few")
        # The first turn behind a past that was handed over is not like the others.
        found[f"turn_{place}_ms"] = statistics.median(gaps(near)[1:])
        found[f"turn_{place}_cpu_ms"] = statistics.median(spent[first : first + count][1:])
        first += count
    return found | _shares(near)


def _opened(opened: Sequence[tuple[str, int]], records: Sequence[Record]) -> Figures:
    """From opening a thread to its first request: new ones, and one with a past."""
    took: dict[str, list[float]] = {}
    for kind, at in opened:
        asked = next((each["arrived"] for each in records if each["arrived"] > at), None)
        if asked is None:
            raise ValueError("a thread was opened and asked nothing")
        took.setdefault(kind, []).append((asked - at) / 1e6)
    return {f"{kind}_ms": statistics.median(times) for kind, times in took.items()}


def least(runs: Sequence[Figures]) -> Figures:
    """The least of each figure over the rounds that have it."""
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: min(run[name] for run in runs if name in run) for name in names}


def medians(runs: Sequence[Figures]) -> Figures:
    """The median of each figure over the rounds that have it."""
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: statistics.median([run[name] for run in runs if name in run]) for name in names}
