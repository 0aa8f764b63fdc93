from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.log.calibration import HIGHEST, LOWEST, calibrate, learn
from treadle.store.contract import Calibration

calibrations = st.builds(
    Calibration, st.floats(LOWEST, HIGHEST), st.integers(min_value=0, max_value=10_000)
)
tokens = st.integers(min_value=-(10**9), max_value=10**9)


def taught(calibration: Calibration, *ratios: float) -> Calibration:
    for ratio in ratios:
        calibration = learn(calibration, 100_000, int(100_000 * ratio))
    return calibration


def test_nothing_learnt_changes_no_estimate():
    assert calibrate(1_234, Calibration()) == 1_234


def test_estimates_are_rounded_up():
    assert [calibrate(n, Calibration(1.25)) for n in (0, 1, 4, 5)] == [0, 2, 5, 7]


@pytest.mark.parametrize(
    ("estimated", "reported"),
    [(0, 500), (-5, 500), (255, 300), (10_000, 0), (10_000, -3), (10_000, 999), (10_000, 100_001)],
)
def test_useless_reports_are_ignored(estimated, reported):
    calibration = Calibration(1.3, 7)
    assert learn(calibration, estimated, reported) == calibration


def test_the_first_report_counts_a_fifth():
    assert taught(Calibration(), 1.2).ratio == pytest.approx(1.04)


@pytest.mark.parametrize("truth", [0.6, 0.85, 1.0, 1.4, 1.9])
def test_steady_reports_are_believed(truth):
    learnt = taught(Calibration(), *itertools.repeat(truth, 200))
    assert learnt.ratio == pytest.approx(truth, abs=0.02)
    assert learnt.samples == 200


def test_a_model_that_changed_is_learnt_again():
    learnt = taught(Calibration(), *itertools.repeat(0.7, 500), *itertools.repeat(1.2, 300))
    assert learnt.ratio == pytest.approx(1.2, abs=0.02)


@given(calibrations, tokens, tokens)
def test_one_report_moves_the_ratio_by_at_most_a_tenth(calibration, estimated, reported):
    after = learn(calibration, estimated, reported)
    assert abs(after.ratio - calibration.ratio) <= 0.1 + 1e-9
    assert after.samples in {calibration.samples, calibration.samples + 1}


@given(st.lists(st.tuples(tokens, tokens), max_size=60))
def test_the_ratio_stays_within_its_bounds(reports):
    calibration = Calibration()
    for estimated, reported in reports:
        calibration = learn(calibration, estimated, reported)
    assert LOWEST <= calibration.ratio <= HIGHEST


@given(calibrations, st.integers(1_000, 10**6), st.floats(0.2, 5.0))
def test_a_report_never_moves_the_ratio_away_from_what_it_says(calibration, estimated, seen):
    reported = round(estimated * seen)
    before, after = calibration.ratio, learn(calibration, estimated, reported).ratio
    truth = reported / estimated
    assert abs(after - truth) <= abs(before - truth) + 1e-9


@given(st.floats(), st.integers(0, 10**9))
def test_a_damaged_ratio_does_no_harm(ratio, count):
    assert count * LOWEST <= calibrate(count, Calibration(ratio)) <= count * HIGHEST + 1
