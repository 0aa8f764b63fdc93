from __future__ import annotations

import pytest
from benchmarks.growth import AXES, GROWTH, fit_exponent, growth_text, measure, read_growth
from benchmarks.page import GROWTH_BEGIN, GROWTH_END, PAGE, between


def test_each_kind_of_growth_is_measured_at_each_of_its_sizes():
    found = measure(tuple(AXES), short=True)
    assert {name: tuple(costs) for name, costs in found.items()} == {
        name: axis.short for name, axis in AXES.items()
    }
    assert all(cost > 0 for costs in found.values() for cost in costs.values())


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_is_that_of_the_law_behind_the_figures(exponent: float):
    costs = {size: 3.0 * size**exponent for size in (10, 100, 1_000, 10_000)}
    assert fit_exponent(costs) == pytest.approx(exponent)


def test_the_page_says_what_was_measured_last():
    page = PAGE.read_text(encoding="utf-8")
    assert between(page, GROWTH_BEGIN, GROWTH_END) == growth_text(read_growth())


def test_nothing_grows_faster_than_what_must_be_sent():
    assert GROWTH.is_file()
    assert {name: fit_exponent(costs) < 1.1 for name, costs in read_growth().items()} == (
        dict.fromkeys(AXES, True)
    )
