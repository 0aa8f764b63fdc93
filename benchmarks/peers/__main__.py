"""Treadle and its peers through the same scenarios, against one instant server.

    python -m benchmarks.peers [--quick] [--only SCENARIO,…] [--peers NAME,…]
                               [--rounds N] [--json FILE [--more]]

Rounds are interleaved: in each one every contestant runs once. Medians count, and their ratio
to bare aiohttp in the same run. Every run is told on standard error.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

from ..release import compare, ratios, read_release
from .contestants import CONTESTANTS, Contestant, NotInstalled
from .figures import Figures
from .results import Results
from .runs import RunFailed, Server, run
from .scenarios import QUICK, SCENARIOS, SIZES
from .targets import Medians, verdicts

QUICK_PEERS = ("floor", "raw", "treadle", "treadle_linear", "treadle_exec")
COLD = "codex"
"""Who else is there for the cold start, which is measured by it."""


def main() -> None:
    options = arguments()
    # As Ctrl-C does, so that no contestant is left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results = Results.read(options.json) if options.more else Results.begun()
    try:
        with Server.started() as server:
            for scenario, contestant, counts in plan_runs(options):
                measure(server, scenario, contestant, results if counts else Results.begun())
                if options.json:
                    results.write(options.json)
    except KeyboardInterrupt:
        print("interrupted; what was measured so far:", file=sys.stderr)
    print("\n".join(lines(results.medians)))
    print("\n".join(judge_targets(results.medians)))
    if options.quick:
        print("\n".join(since_release(results.least)))


def measure(server: Server, scenario: str, contestant: Contestant, results: Results) -> None:
    """One run, and what came of it."""
    name, started = contestant.name, time.monotonic()
    try:
        ran = run(server, contestant, scenario, SIZES)
    except (RunFailed, NotInstalled) as error:
        results.failed(scenario, name, str(error))
        said = f"failed: {error}"
    else:
        results.note(scenario, name, ran.figures)
        results.versions |= {name: ran.version} if ran.version else {}
        said = "  ".join(cells(ran.figures, {}))
    print(f"{time.monotonic() - started:6.1f} s  {scenario} {name}: {said}", file=sys.stderr)


def plan_runs(options: argparse.Namespace) -> Iterator[tuple[str, Contestant, bool]]:
    """Who runs what, one after the other, and whether it counts."""
    scenarios = options.only or (QUICK if options.quick else tuple(SCENARIOS))
    peers = options.peers or (QUICK_PEERS if options.quick else tuple(CONTESTANTS))
    for number in range(-1, options.rounds):
        for scenario in (SCENARIOS[name] for name in scenarios):
            most = options.rounds if options.quick else scenario.most_rounds
            if not -scenario.warm_ups <= number < most:
                continue
            for contestant in CONTESTANTS.values():
                asked = contestant.name in peers or (
                    options.quick and _cold(scenario.name, contestant)
                )
                if asked and scenario.name in contestant.scenarios:
                    yield scenario.name, contestant, number >= 0


def _cold(scenario: str, contestant: Contestant) -> bool:
    return scenario == "cold_start" and contestant.name == COLD


def lines(found: Medians) -> Iterator[str]:
    """Figures, and their ratio to the floor."""
    for scenario, by_name in found.items():
        for name, figures in by_name.items():
            shown = "  ".join(cells(figures, by_name.get("floor", {})))
            yield f"{scenario:12} {name:10} {shown}"


def judge_targets(found: Medians) -> Iterator[str]:
    """What the run says about the targets that it measured."""
    for verdict in verdicts(found):
        if verdict.met is not None:
            yield f"{verdict.target.name} (at most {verdict.target.limit:g}): {verdict}"


def since_release(found: Medians) -> Iterator[str]:
    """What got worse since the last release."""
    released, kept = read_release()
    worse = list(compare(ratios(found), kept))
    yield from worse or [f"nothing is worse than in {released}"]


def cells(found: Figures, floor: Figures) -> Iterator[str]:
    for name, figure in found.items():
        ratio = f" ({figure / floor[name]:.2f}x)" if floor.get(name) else ""
        yield f"{name} {figure:.4g}{ratio}"


def names(known: Collection[str], text: str) -> tuple[str, ...]:
    """Names between commas, each of which is known."""
    told = tuple(text.split(","))
    if unknown := [name for name in told if name not in known]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
    return told


def arguments() -> argparse.Namespace:
    about = __doc__.splitlines()[0] if __doc__ else None
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=about)
    parser.add_argument("--quick", action="store_true", help="Treadle and the floor, in a minute")
    parser.add_argument("--only", type=partial(names, SCENARIOS), help=", ".join(SCENARIOS))
    parser.add_argument("--peers", type=partial(names, CONTESTANTS), help=", ".join(CONTESTANTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write results to this file")
    parser.add_argument("--more", action="store_true", help="add to those that the file has")
    return parser.parse_args()


if __name__ == "__main__":
    main()
