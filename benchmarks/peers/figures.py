"""From the server's notes to figures.

A tool round, or a turn, is the client's time between an answer and the next request. A delta
is what a long answer takes beyond a short one, for each of its pieces. Single gaps jump, so a
figure is the median of the gaps around its place.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from .answers import DELTAS

__all__ = ["Figures", "Record", "figures", "gaps", "medians", "prefix_share"]

Figures: TypeAlias = dict[str, float]
Record: TypeAlias = dict[str, int]

ROUNDS = (5, 55)
STOPS = (10, 100, 500, 1_000)
AROUND = 4
"""Neighbours on either side that a figure is the median of."""


def figures(scenario: str, started: int, records: Sequence[Record]) -> Figures:
    """What a run shows, by the name of the figure."""
    if not records:
        raise ValueError("the server was never asked")
    match scenario:
        case "cold_start":
            return {"first_request_ms": (records[0]["arrived"] - started) / 1e6}
        case "deltas":
            return {"delta_us": delta(records)}
        case "tool_loop" | "command_loop":
            return _at("round", ROUNDS, 2, records)
        case "turns":
            return _at("turn", STOPS, AROUND, records)
        case _:
            return {"requests": float(len(records))}


def gaps(records: Sequence[Record]) -> list[float]:
    """Milliseconds from each answer's last byte to the next request; the *n*-th at n - 1."""
    return [(after["arrived"] - before["done"]) / 1e6 for before, after in pairwise(records)]


def delta(records: Sequence[Record]) -> float:
    """Microseconds for a piece of a long answer; every second answer is one."""
    took = [(after["arrived"] - before["began"]) / 1e3 for before, after in pairwise(records)]
    # The first answer warms the client up.
    short, long = took[2::2], took[1::2]
    return (statistics.median(long) - statistics.median(short)) / DELTAS


def prefix_share(records: Sequence[Record]) -> float:
    """The part of all bytes that a request had in common with the one before it.

    Measured by the shorter of the two: 1.0 where each request begins with all the one before
    it had, but for what closes it.
    """
    pairs = list(pairwise(records))
    possible = sum(min(before["bytes"], after["bytes"]) for before, after in pairs)
    return sum(after["shared"] for _, after in pairs) / possible if possible else 1.0


def _at(name: str, places: Sequence[int], around: int, records: Sequence[Record]) -> Figures:
    took = gaps(records)
    found: Figures = {}
    for place in places:
        # The gap before request n ends turn n - 1 and begins turn n.
        near = took[max(0, place - 2 - around) : place - 1 + around]
        if len(took) >= place - 1 and near:
            found[f"{name}_{place}_ms"] = statistics.median(near)
    found["prefix_share"] = prefix_share(records)
    return found


def medians(runs: Sequence[Figures]) -> Figures:
    """The median of each figure over the rounds that have it."""
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: statistics.median([run[name] for run in runs if name in run]) for name in names}
