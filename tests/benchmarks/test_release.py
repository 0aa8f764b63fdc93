from __future__ import annotations

from benchmarks.peers.scenarios import QUICK
from benchmarks.peers.targets import Medians
from benchmarks.release import TOLERANCE, WATCHED, compare, ratios, read_release


def run_of(round_cpu: float, floor: float) -> Medians:
    return {
        "tool_loop": {
            "treadle": {"round_cpu_ms": round_cpu, "peak_mb": 40.0},
            "floor": {"round_cpu_ms": floor, "peak_mb": 36.0},
        }
    }


def test_ratios_are_those_of_one_run():
    assert ratios(run_of(3.0, 0.5)) == {
        "a tool round": 6.0,
        "memory after a tool loop": 40.0 / 36.0,
    }
    assert ratios({}) == {}


def test_a_machine_that_is_twice_as_slow_makes_nothing_worse():
    before, now = ratios(run_of(3.0, 0.5)), ratios(run_of(6.0, 1.0))
    assert list(compare(now, before)) == []


def test_what_got_worse_by_more_than_noise_is_told_with_both_figures():
    before = ratios(run_of(3.0, 0.5))
    assert list(compare(ratios(run_of(3.0 * TOLERANCE, 0.5)), before)) == []
    assert list(compare(ratios(run_of(6.0, 0.5)), before)) == [
        "worse: a tool round, 12.00\N{MULTIPLICATION SIGN} and was 6.00\N{MULTIPLICATION SIGN}"
    ]


def test_what_is_not_measured_any_more_is_told():
    assert list(compare({}, {"a tool round": 6.0})) == ["not measured any more: a tool round"]


def test_the_figures_of_the_last_release_are_those_of_a_quick_run():
    version, kept = read_release()
    assert version
    assert set(kept) == set(WATCHED)
    assert all(ratio > 0 for ratio in kept.values())
    assert {each.scenario for each in WATCHED.values()} <= set(QUICK)
