"""Weft and its peers through the same scenarios, against one instant server.

    python -m benchmarks.peers [--quick] [--only SCENARIO,…] [--peers NAME,…]
                               [--rounds N] [--json FILE]

Rounds are interleaved: in each one every contestant runs once. Medians count, and their ratio
to bare aiohttp in the same run. Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from .contestants import CONTESTANTS, Contestant, NotInstalled
from .figures import Figures, medians
from .runs import RunFailed, Server, run
from .scenarios import QUICK, SCENARIOS, SIZES
from .targets import Medians, verdicts

QUICK_PEERS = ("floor", "raw", "weft", "weft_exec")


def main() -> None:
    options = arguments()
    results: dict[str, dict[str, list[Figures]]] = {}
    with Server.started() as server:
        for scenario, contestant in planned(options):
            say(f"{scenario} {contestant.name}")
            try:
                figures = run(server, contestant, scenario, SIZES).figures
            except (RunFailed, NotInstalled) as error:
                print(f"\n{contestant.name}: {error}", file=sys.stderr)
                continue
            results.setdefault(scenario, {}).setdefault(contestant.name, []).append(figures)
    say("")
    found = {
        scenario: {name: medians(runs) for name, runs in by_name.items()}
        for scenario, by_name in results.items()
    }
    print("\n".join(lines(found)))
    print("\n".join(judged(found)))


def planned(options: argparse.Namespace) -> Iterator[tuple[str, Contestant]]:
    """Who runs what, one after the other."""
    scenarios = options.only or (QUICK if options.quick else tuple(SCENARIOS))
    peers = options.peers or (QUICK_PEERS if options.quick else tuple(CONTESTANTS))
    for number in range(options.rounds):
        for scenario in scenarios:
            if number >= SCENARIOS[scenario].most_rounds:
                continue
            for contestant in CONTESTANTS.values():
                if contestant.name in peers and scenario in contestant.scenarios:
                    yield scenario, contestant


def lines(found: Medians) -> Iterator[str]:
    """Figures, and their ratio to the floor."""
    for scenario, by_name in found.items():
        for name, figures in by_name.items():
            shown = "  ".join(cells(figures, by_name.get("floor", {})))
            yield f"{scenario:12} {name:10} {shown}"


def judged(found: Medians) -> Iterator[str]:
    """What the run says about the targets that it measured."""
    for verdict in verdicts(found):
        if verdict.met is not None:
            yield f"{verdict.target.name} (at most {verdict.target.limit:g}): {verdict}"


def cells(found: Figures, floor: Figures) -> Iterator[str]:
    for name, figure in found.items():
        ratio = f" ({figure / floor[name]:.2f}x)" if floor.get(name) else ""
        yield f"{name} {figure:.4g}{ratio}"


def say(progress: str) -> None:
    """Show on standard error what is going on."""
    if sys.stderr.isatty():
        print(f"\r\033[K{progress}", end="", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    def names(text: str) -> tuple[str, ...]:
        return tuple(text.split(","))

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="Weft and the floor, in a minute")
    parser.add_argument("--only", type=names, help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--peers", type=names, help=f"of {', '.join(CONTESTANTS)}")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
