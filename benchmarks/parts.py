"""What the parts of our own turn cost: store, fragments, assemble, ledger, encode and so on.

A thread with everything on runs against the instant server, first as it is, for the whole;
then under a profiler in every thread, for the shares. Own time of a function belongs to the
part whose file it stands in; that of the standard library and of C to whoever called it. The
parts are shares of the whole, so they add up to it.

    python -m benchmarks.parts [--repeats 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from .peers.results import Results
from .peers.runs import Server
from .peers.scenarios import SIZES

__all__ = ["PARTS", "by_part", "part_of"]

Function: TypeAlias = tuple[str, int, str]
"""File, line and name, as the profiler has it."""
Called: TypeAlias = tuple[int, int, float, float]
Profiled: TypeAlias = Mapping[Function, tuple[int, int, float, float, Mapping[Function, Called]]]

PARTS = (
    ("store/index_tables.py", "ledger"),
    ("store/index.py", "ledger"),
    ("store/", "store"),
    ("whole.py", "store"),
    ("context/ledger.py", "ledger"),
    ("context/request.py", "encode"),
    ("context/outbound.py", "encode"),
    ("models/format", "encode"),
    ("models/", "transport"),
    ("events.py", "transport"),
    ("prompt/", "fragments"),
    ("context/compose.py", "fragments"),
    ("context/", "assemble"),
    ("engines/", "assemble"),
    ("tools/", "tools"),
    ("sandbox/", "tools"),
    ("workspace/", "tools"),
    ("hooks/", "hooks"),
    ("", "loop"),
)
"""Which part a file of Treadle belongs to; the first that fits."""
REST = "event loop"
"""What nobody of ours called: the event loop's own work."""
ORDER = (
    "store",
    "fragments",
    "assemble",
    "ledger",
    "encode",
    "transport",
    "tools",
    "hooks",
    "loop",
    REST,
)
KINDS = {"tool round": ("tick-{}", 200), "turn": ("text", 200), "delta": ("deltas", 5)}
"""Scripts of the server, and how many rounds, turns or long answers are measured."""


@dataclass(slots=True)
class Profiler:
    """A profile of the time on a processor, of this thread and of those that it starts."""

    profiles: list[cProfile.Profile] = field(default_factory=list)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Every thread that starts from now on is watched from its start."""
        threading.setprofile(self._begin)
        try:
            yield
        finally:
            threading.setprofile(None)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Only what happens meanwhile counts."""
        for profile in self.profiles:
            profile.clear()
        mine = cProfile.Profile(time.thread_time)
        self.profiles.append(mine)
        mine.enable()
        try:
            yield
        finally:
            mine.disable()

    def shares(self) -> dict[str, float]:
        """The share of each part."""
        seconds: dict[str, float] = defaultdict(float)
        for profile in self.profiles:
            profile.create_stats()
            for part, spent in by_part(profile.stats).items():
                seconds[part] += spent
        whole = sum(seconds.values())
        return {part: seconds[part] / whole for part in ORDER}

    def _begin(self, *_: Any) -> None:
        profile = cProfile.Profile(time.thread_time)
        self.profiles.append(profile)
        profile.enable()


def part_of(file: str) -> str | None:
    """The part of Treadle that a file belongs to; None if it is not ours."""
    _, ours, path = file.replace("\\", "/").rpartition("/src/treadle/")
    if not ours:
        return None
    return next(part for beginning, part in PARTS if path.startswith(beginning))


def by_part(profiled: Profiled) -> dict[str, float]:
    """Seconds of each part; together they are all seconds of the profile."""
    known: dict[Function, dict[str, float]] = {}
    seconds: dict[str, float] = defaultdict(float)
    for function, (_, _, own, _, callers) in profiled.items():
        part = part_of(function[0])
        if part is not None:
            seconds[part] += own
            continue
        told = {caller: called[2] for caller, called in callers.items()}
        for name, share in _shares(told, profiled, known).items():
            seconds[name] += own * share
    return dict(seconds)


def _shares(
    weights: Mapping[Function, float], profiled: Profiled, known: dict[Function, dict[str, float]]
) -> dict[str, float]:
    """Whose work a function does that is not ours, by the weights of its callers."""
    whole = sum(weights.values())
    if whole <= 0:
        return {REST: 1.0}
    shares: dict[str, float] = defaultdict(float)
    for caller, weight in weights.items():
        for part, share in _asked_by(caller, profiled, known).items():
            shares[part] += share * weight / whole
    return dict(shares)


def _asked_by(
    function: Function, profiled: Profiled, known: dict[Function, dict[str, float]]
) -> dict[str, float]:
    """The parts that a function works for: its own, or those of its callers."""
    part = part_of(function[0])
    if part is not None:
        return {part: 1.0}
    if function not in known:
        known[function] = {REST: 1.0}  # what calls itself in a ring has no other caller
        callers = profiled[function][4] if function in profiled else {}
        told = {caller: called[3] for caller, called in callers.items()}
        known[function] = _shares(told, profiled, known)
    return known[function]


async def measured(server: Server, kind: str, profiler: Profiler | None) -> float:
    """Milliseconds on a processor for one round, turn or delta."""
    from common import Job  # type: ignore[import-not-found]
    from treadle_library import opened  # type: ignore[import-not-found]

    script, count = KINDS[kind]
    scenario = {"tool round": "tool_loop"}.get(kind, "turns")
    turns = {"tool round": 1, "turn": count, "delta": 2 * count}[kind]
    with tempfile.TemporaryDirectory() as place:
        key = server.key()
        job = Job(scenario, f"{server.address}/{key}", Path(place), SIZES)
        async with opened(job, script.format(count), key) as conversation:
            if kind != "tool round":
                await conversation.turn("Begin.")
            started = time.process_time()
            if profiler is None:
                await said(conversation, turns)
            else:
                with profiler.counting():
                    await said(conversation, turns)
            spent = (time.process_time() - started) * 1e3
    return spent / (count * 5_000 if kind == "delta" else count)


async def said(conversation: Any, turns: int) -> None:
    for number in range(turns):
        await conversation.turn(f"Mend the failing test, please ({number}).")


def measure(server: Server, kind: str, repeats: int) -> dict[str, float]:
    """What the parts cost, and the whole."""
    whole = statistics.median(asyncio.run(measured(server, kind, None)) for _ in range(repeats))
    profiler = Profiler()
    with profiler.watching():
        asyncio.run(measured(server, kind, profiler))
    return {part: share * whole for part, share in profiler.shares().items()} | {"whole": whole}


def table(parts: Mapping[str, Mapping[str, float]]) -> str:
    """One row for each part, with its share of each kind's whole."""
    units = {"delta": ("µs", 1e3)}
    kinds = list(parts)
    heads = (f"a {kind}, {units.get(kind, ('ms', 1))[0]} of CPU" for kind in kinds)
    lines = [f"| part | {' | '.join(heads)} |", f"|---|{'---:|' * len(kinds)}"]
    for part in (*ORDER, "whole"):
        cells = []
        for kind in kinds:
            cost, whole = parts[kind].get(part, 0.0), parts[kind]["whole"]
            cells.append(f"{cost * units.get(kind, ('', 1))[1]:.3f} ({cost / whole:.0%})")
        lines.append(f"| {part} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="put them among the results of this file")
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent / "peers" / "drivers"))
    with Server.started() as server:
        parts = {kind: measure(server, kind, options.repeats) for kind in KINDS}
    if options.json:
        results = Results.read(options.json) if options.json.exists() else Results.begun()
        results.parts = parts
        results.write(options.json)
    print(table(parts))


if __name__ == "__main__":
    main()
