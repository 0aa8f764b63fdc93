from __future__ import annotations

import pytest
from benchmarks.peers.answers import DELTAS
from benchmarks.peers.figures import Record, figures, gaps, medians, prefix_share
from benchmarks.peers.targets import TARGETS, Medians, verdicts

MS = 1_000_000


def records(*pauses: float, answered: float = 1.0) -> list[Record]:
    """Requests with so many milliseconds between an answer and the next request."""
    found, now = [], 0
    for number, pause in enumerate((0.0, *pauses)):
        now += int(pause * MS)
        done = now + int(answered * MS)
        found.append(
            {
                "arrived": now,
                "began": now,
                "done": done,
                "bytes": 10 * (number + 1),
                "shared": 10 * number,
                "read": 10 * (number + 1),
                "kept": 10 * number,
                "results": number,
            }
        )
        now = done
    return found


def test_a_gap_is_from_an_answer_to_the_next_request():
    assert gaps(records(2.0, 3.0, 4.0)) == [2.0, 3.0, 4.0]


def test_a_cold_start_is_counted_from_the_start_of_the_process():
    late = [{**each, "arrived": 70 * MS} for each in records()]
    assert figures("cold_start", 20 * MS, late, {}) == {"first_request_ms": 50.0}


def test_a_round_is_the_median_of_those_around_it():
    pauses = [1.0] * 60
    pauses[2:6] = [9.0, 5.0, 5.0, 5.0]  # of the gaps 2 to 6, the 5th round is the median
    found = figures("tool_loop", 0, records(*pauses), {"spent_ms": [120.0]})
    assert (found["round_5_ms"], found["round_55_ms"], found["round_cpu_ms"]) == (5.0, 1.0, 2.0)


def test_a_round_on_a_processor_is_from_one_call_to_the_next():
    called = [0, 9 * MS, 12 * MS, 15 * MS]
    report = {"spent_ms": [600.0], "called_ns": called}
    assert figures("tool_loop", 0, records(*[1.0] * 60), report)["round_cpu_ms"] == 3.0


def test_too_few_requests_are_no_measurement():
    with pytest.raises(ValueError, match="too few"):
        figures("tool_loop", 0, records(1.0, 1.0), {"spent_ms": [1.0]})
    with pytest.raises(ValueError, match="no request"):
        figures("turns", 0, [], {})


def test_calls_that_fail_are_no_measurement():
    made = records(*[1.0] * 60)
    made[-1]["results"] = 59
    with pytest.raises(ValueError, match="have failed"):
        figures("command_loop", 0, made, {"spent_ms": [1.0]})


def test_a_delta_is_what_a_long_answer_takes_beyond_a_short_one():
    short, long = 2.0, 2.0 + DELTAS * 3 / 1e3
    made = records(short, long, short, long, answered=0.0)
    spent = [short, long - 5.0, short, long - 5.0]
    found = figures("deltas", 0, made, {"spent_ms": spent})
    assert found == {"delta_us": pytest.approx(3.0), "delta_cpu_us": pytest.approx(2.0)}


def test_turns_around_stops_are_told_apart_by_their_count():
    pauses = (9.0, 1.0, 1.0, 50.0, 9.0, 4.0, 4.0)
    report = {"stops": [[10, 4], [100, 4]], "spent_ms": [7, 1, 2, 3, 7, 4, 5, 6]}
    found = figures("turns", 0, records(*pauses), report)
    assert (found["turn_10_ms"], found["turn_100_ms"]) == (1.0, 4.0)
    assert (found["turn_10_cpu_ms"], found["turn_100_cpu_ms"]) == (2, 5)


def test_a_thread_that_is_opened_waits_for_its_own_request():
    made = records(10.0, 10.0)
    opened = [["new", made[1]["arrived"] - 3 * MS], ["resumed", made[2]["arrived"] - 6 * MS]]
    assert figures("resume", 0, made, {"opened": opened}) == {"new_ms": 3.0, "resumed_ms": 6.0}


def test_a_prefix_is_whole_where_each_request_goes_on():
    made = records(1.0, 1.0)
    assert prefix_share(made) == 1.0
    made[2]["kept"] = 5
    assert prefix_share(made) == 0.5


def test_medians_are_of_the_rounds_that_have_a_figure():
    assert medians([{"a": 1.0}, {"a": 3.0, "b": 7.0}, {"a": 2.0}]) == {"a": 2.0, "b": 7.0}


MEASURED: Medians = {
    "cold_start": {
        "treadle_exec": {"first_request_ms": 150.0},
        "codex": {"first_request_ms": 200.0},
        "treadle": {"peak_mb": 40.0},
        "floor": {"peak_mb": 36.0},
    },
    "tool_loop": {
        "treadle": {"round_5_ms": 1.0, "round_55_ms": 3.0, "peak_mb": 90.0},
        "floor": {"round_5_ms": 0.25, "round_55_ms": 0.25, "peak_mb": 36.0},
    },
    "turns": {
        "treadle": {"turn_10_ms": 2.0, "turn_1000_ms": 3.0, "peak_mb": 40.0},
        "raw": {"turn_10_ms": 0.1, "turn_1000_ms": 0.5},
        "floor": {"peak_mb": 36.0},
    },
    "threads_many": {
        "treadle": {"mb_each": 0.125, "together_cpu_ms": 2.0, "alone_cpu_ms": 4.0},
    },
}


def test_a_target_is_told_by_processor_time_too():
    loops: Medians = {
        "tool_loop": {
            "treadle": {"round_5_ms": 9.0, "round_cpu_ms": 3.0},
            "floor": {"round_5_ms": 1.0, "round_cpu_ms": 0.5},
        }
    }
    told = next(each for each in verdicts(loops) if each.measured == 9.0)
    assert (told.busy, told.met) == (6.0, False)


def test_targets_are_met_unmet_or_not_measured():
    assert [(each.measured, each.met) for each in verdicts(MEASURED)] == [
        (0.75, True),
        (None, None),
        (4.0, True),
        (12.0, False),
        (None, None),
        (None, None),
        (None, None),
        (None, None),
        (pytest.approx(1.3), True),
        (2.5, False),
        (0.125, True),
        (0.5, True),
        (None, None),
        (None, None),
    ]
    assert all(each.met is None for each in verdicts({}))
    assert len(TARGETS) == 14
