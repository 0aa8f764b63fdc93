"""The scenarios: what every contestant is put through, and how often.

Invariant: sizes are the same for all contestants of a run.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["QUICK", "SCENARIOS", "SIZES", "Scenario"]

SIZES = {
    "rounds": 60,
    "answers": 9,
    "turns": 1_005,
    "threads": 200,
    "many_threads": 1_000,
    "turns_each": 3,
    "past": 1_000,
    "long_past": 100_000,
    "huge_past": 1_000_000,
}
"""Tool rounds; long answers; turns of the long thread; threads at once, twice, and turns of each;
turns of a past that every contestant can bear, and items of two that only few can."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing that is measured."""

    name: str
    short: str
    title: str
    most_rounds: int = 100
    """Long ones are not repeated as often."""
    warm_ups: int = 0
    """Rounds before those that count, in which bytecode is compiled and files are cached."""


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("cold_start", "cold start", "cold start to the first request", warm_ups=1),
        Scenario("tool_loop", "tool loop", "a loop of 60 tool rounds, trivial tool"),
        Scenario("command_loop", "commands", "a loop of 60 tool rounds, real command"),
        Scenario("deltas", "deltas", "answers of 5,000 deltas"),
        Scenario("turns", "1,000 turns", "1,000 turns in one thread", most_rounds=1),
        Scenario("threads", "200 threads", "200 threads at once", most_rounds=1),
        Scenario("threads_many", "1,000 threads", "1,000 threads at once", most_rounds=1),
        Scenario("resume", "resume", "resuming a thread of 1,000 turns", most_rounds=1),
        Scenario(
            "resume_long", "100,000 items", "resuming a thread of 100,000 items", most_rounds=1
        ),
        Scenario(
            "resume_huge", "1,000,000 items", "resuming a thread of 1,000,000 items", most_rounds=1
        ),
    )
}
QUICK = ("cold_start", "tool_loop", "command_loop", "deltas", "turns")
"""What `--quick` has time for."""
