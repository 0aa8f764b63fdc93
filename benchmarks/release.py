"""The figures of the last release, and what got worse since.

Owns `results/release.json`. Invariants: only ratios within one run are kept and compared, by
processor time or memory and of the rounds that others disturbed least, so that another machine
says the same; what comes out fails nothing.

    python -m benchmarks.release [--json FILE]    # keep what a quick run has shown
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

from .peers.results import Results
from .peers.targets import TIMES, Medians

__all__ = ["KEPT", "QUICK_RESULTS", "TOLERANCE", "Ratios", "compare", "ratios", "read_release"]

RESULTS = Path(__file__).parent / "results"
KEPT = RESULTS / "release.json"
QUICK_RESULTS = RESULTS / "quick.json"
"""What the newest quick run has shown; not in the repository."""
TOLERANCE = 1.6
"""Ratios of one and the same Treadle lie closer together than this, also on a busy machine."""

Ratios: TypeAlias = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Watched:
    """A figure of Treadle's that is compared, and whose it is measured by."""

    scenario: str
    figure: str
    mine: str = "treadle"
    other: str = "floor"


WATCHED: dict[str, Watched] = {
    "the processor time of a cold start": Watched("cold_start", "process_cpu_ms"),
    "that of one of `treadle exec`": Watched("cold_start", "process_cpu_ms", "treadle_exec"),
    "a tool round": Watched("tool_loop", "round_cpu_ms"),
    "a command in the sandbox": Watched("command_loop", "round_cpu_ms"),
    "a streamed delta": Watched("deltas", "delta_cpu_us"),
    "a turn, the 100th": Watched("turns", "turn_100_cpu_ms"),
    "a turn, the 1,000th": Watched("turns", "turn_1000_cpu_ms"),
    "lossless beside linear, a turn": Watched("turns", "turn_100_cpu_ms", other="treadle_linear"),
    "memory after a tool loop": Watched("tool_loop", "peak_mb"),
    "memory after 1,000 turns": Watched("turns", "peak_mb"),
}


def ratios(found: Medians) -> dict[str, float]:
    """What a run says of each figure that is compared, where it says anything."""
    told: dict[str, float] = {}
    for name, each in WATCHED.items():
        by_name = found.get(each.scenario, {})
        mine = by_name.get(each.mine, {}).get(each.figure)
        other = by_name.get(each.other, {}).get(each.figure)
        if mine is not None and other:
            told[name] = mine / other
    return told


def compare(now: Ratios, kept: Ratios, tolerance: float = TOLERANCE) -> Iterator[str]:
    """Say what got worse by more than noise, and what was not measured any more."""
    for name, before in kept.items():
        if name not in now:
            yield f"not measured any more: {name}"
        elif now[name] > before * tolerance:
            yield f"worse: {name}, {now[name]:.2f}{TIMES} and was {before:.2f}{TIMES}"


def read_release(path: Path = KEPT) -> tuple[str, dict[str, float]]:
    """The version that was released last, and its ratios."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    return kept["version"], kept["ratios"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, default=QUICK_RESULTS)
    found = {
        name: float(f"{ratio:.3g}")
        for name, ratio in ratios(Results.read(parser.parse_args().json).least).items()
    }
    kept = {"version": version("treadle"), "ratios": found}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
