from __future__ import annotations

from operator import add
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.engines.lazy_sequence import LazySequence, starts_with

NUMBERS = st.lists(st.integers(0, 9), max_size=8)
SLICES = st.slices(8)


def column(numbers: list[int], *more: str) -> LazySequence[str]:
    return LazySequence(numbers, str, more=more)


@given(NUMBERS, st.lists(st.text(max_size=2), max_size=2), SLICES, st.booleans())
def test_a_column_reads_like_the_tuple_it_stands_for(
    numbers: list[int], more: list[str], cut: slice, looked: bool
):
    made, meant = column(numbers, *more), (*map(str, numbers), *more)
    if looked:
        assert list(made) == list(meant)
    assert len(made) == len(meant)
    assert [made[at] for at in range(-len(meant), len(meant))] == [*meant, *meant]
    assert tuple(made[cut]) == meant[cut]
    assert [hash(made), repr(made)] == [hash(meant), repr(meant)]
    assert (add(made, ("x",)), add(("x",), made)) == ((*meant, "x"), ("x", *meant))
    same: Any = meant
    assert [made == same, same == made] == [True, True]
    assert made != ["other"]


@given(NUMBERS, NUMBERS)
def test_a_column_stays_as_it_was_when_rows_are_added(numbers: list[int], new: list[int]):
    rows = list(numbers)
    before = column(rows)
    rows += new
    after = LazySequence(rows, str)
    assert tuple(before) == tuple(map(str, numbers))
    assert starts_with(after, before)
    assert starts_with(before, after) is (after == before)


def test_nothing_is_made_that_nobody_looks_at():
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        return number

    rows = list(range(100))
    whole: LazySequence[int] = LazySequence(rows, make)
    rows.append(100)
    grown: LazySequence[int] = LazySequence(rows, make)
    assert starts_with(grown, whole[:50])
    assert (len(grown), grown[100], tuple(grown[99:])) == (101, 100, (99, 100))
    assert made == [100, 99, 100]


def test_what_was_made_for_a_part_is_not_made_again_for_the_whole():
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        return number

    whole: LazySequence[int] = LazySequence(list(range(5)), make, more=(9,))
    part = whole[:3]
    assert (tuple(part), tuple(whole), whole[:], tuple(whole[:4])) == (
        (0, 1, 2),
        (0, 1, 2, 3, 4, 9),
        whole,
        (0, 1, 2, 3),
    )
    assert (made, part[-1], whole[4]) == ([0, 1, 2, 3, 4], 2, 4)


@given(NUMBERS, NUMBERS)
def test_columns_of_other_views_begin_each_other_by_what_they_say(one: list[int], other: list[int]):
    prefix: Any = tuple(map(str, one))
    assert starts_with(column(other), column(one)) is (tuple(map(str, other))[: len(one)] == prefix)
