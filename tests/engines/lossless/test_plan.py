from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from treadle.context.row import shape_of
from treadle.context.rules import Pairing
from treadle.core.items import Item
from treadle.engines.lossless.plan import (
    Measures,
    Stretch,
    condensable,
    fresh_from,
    mergeable,
    stretches,
)
from treadle.engines.values import ContextItem, Covered

from .samples import call, ran, says, user

MEASURES = Measures(leaf_tokens=1_000, tail_tokens=500, leaf_fan_in=3, fan_in=2)


def turn(number: int, seq: int, *, calls: int = 0, tokens: int = 100) -> list[ContextItem]:
    """A turn of an input, some steps with a call each, and an answer."""
    made: list[tuple[Item, int]] = [(user(f"input {number}"), 0)]
    for step in range(1, calls + 1):
        name = f"c{number}.{step}"
        made += [(call("look", name), step), (ran(f"saw {name}", call_id=name), step)]
    made.append((says(f"answer {number}"), calls + 1))
    return [
        ContextItem(
            body=ContextItem.of(item).body,
            id=f"t:{seq + at}",
            seq=seq + at,
            turn=number,
            step=step,
            tokens=tokens,
        )
        for at, (item, step) in enumerate(made)
    ]


def summary(name: str, first: int, last: int, tokens: int = 50) -> ContextItem:
    made = ContextItem.of(user(f"<{name}>"), tokens=tokens, covers=Covered(first, last))
    return msgspec.structs.replace(made, name=name, id=f"t:{name}")


@st.composite
def conversations(draw: st.DrawFn) -> list[ContextItem]:
    """Turns, some of them already under summaries."""
    items: list[ContextItem] = []
    seq = 1
    for number in range(1, draw(st.integers(1, 12)) + 1):
        calls = draw(st.integers(0, 5))
        made = turn(number, seq, calls=calls, tokens=draw(st.sampled_from([20, 100, 700])))
        seq += len(made) + draw(st.integers(0, 2))
        folded = draw(st.integers(0, 3)) == 0 and number > 1
        items += [summary(f"sum_{number}", made[0].seq or 0, seq - 1)] if folded else made
    return items


def lives(items: Sequence[ContextItem]) -> list[int]:
    """Where a current turn could begin."""
    starts = [at for at, item in enumerate(items) if shape_of(item.body).role == "user"]
    return [*(at for at in starts if items[at].seq is not None), len(items)]


@given(st.data())
def test_stretches_are_disjoint_sorted_raw_and_before_what_is_fresh(data):
    items = data.draw(conversations())
    live = data.draw(st.sampled_from(lives(items)))
    found = stretches(items, live, MEASURES, unfinished=data.draw(st.booleans()))
    ends = [0, *(at for part in found for at in (part.start, part.end))]
    assert ends == sorted(ends)
    assert all(part.start < part.end <= fresh_from(items, MEASURES) for part in found)
    assert all(item.seq is not None for part in found for item in part.items)
    assert all(part.items == tuple(items[part.start : part.end]) for part in found)


@given(st.data())
def test_a_stretch_parts_no_call_from_its_output_and_no_step(data):
    items = data.draw(conversations())
    for part in stretches(items, len(items), MEASURES, unfinished=True):
        pairing = Pairing()
        shapes = [shape_of(item.body) for item in part.items]
        assert all(pairing.admits(shape, at) for at, shape in enumerate(shapes))
        assert pairing.open == {}
        for border in (part.start, part.end):
            if 0 < border < len(items):
                left, right = items[border - 1], items[border]
                assert (left.turn, left.step) != (right.turn, right.step) or not left.turn


@given(st.data())
def test_what_was_said_to_the_current_turn_is_in_no_stretch(data):
    items = data.draw(conversations())
    live = data.draw(st.sampled_from(lives(items)))
    parts = stretches(items, live, MEASURES, upto=len(items), unfinished=True)
    names = [item.name for item in items if item.name]
    older = condensable(items, dict.fromkeys(names, 0), live, MEASURES)
    said = {at for at in range(live, len(items)) if shape_of(items[at].body).role == "user"}
    for part in [*parts, *([older] if older else [])]:
        assert not said & {at for at in range(part.start, part.end) if items[at].seq is not None}


@given(st.data())
def test_what_is_appended_later_moves_no_border(data):
    items = data.draw(conversations())
    more = turn(99, 9_000, calls=data.draw(st.integers(0, 4)))
    before = [part.key for part in stretches(items, len(items), MEASURES)]
    after = stretches([*items, *more], len(items), MEASURES)
    assert [part.key for part in after][: len(before)] == before


def spoken(*sizes: int) -> list[ContextItem]:
    items: list[ContextItem] = []
    for number, tokens in enumerate(sizes, 1):
        items += turn(number, len(items) + 1, tokens=tokens)
    return items


def ends(parts: Sequence[Stretch]) -> list[tuple[int, int]]:
    return [(part.start, part.end) for part in parts]


def test_a_stretch_ends_where_a_turn_does_if_that_is_in_its_later_half():
    assert ends(stretches(spoken(*[150] * 10), 20, MEASURES)) == [(0, 6), (6, 12)]


def test_a_step_that_is_larger_than_a_leaf_is_a_stretch_of_its_own():
    items = [*spoken(100), *turn(2, 3, tokens=2_000), *turn(3, 5), *turn(4, 7, tokens=400)]
    assert ends(stretches(items, len(items), MEASURES)) == [(0, 2), (2, 3), (3, 4)]


def test_the_last_stretch_may_still_grow_unless_nobody_waits():
    items = spoken(*[100] * 4)
    assert ends(stretches(items, 8, MEASURES)) == []
    assert ends(stretches(items, 8, MEASURES, unfinished=True)) == [(0, 3)]


def test_what_lies_between_summaries_is_a_stretch_where_it_is_no_scrap():
    large, small = turn(1, 10, tokens=200), turn(2, 20)
    items = [
        summary("sum_a", 1, 9),
        *large,
        summary("sum_b", 12, 19),
        *small,
        summary("sum_c", 22, 29),
        *spoken(300),
    ]
    assert ends(stretches(items, len(items), MEASURES)) == [(1, 3)]


def test_neighbouring_summaries_of_one_depth_are_condensed_with_the_scraps_between_them():
    items = [
        summary("sum_a", 1, 4),
        summary("sum_b", 5, 9),
        *turn(2, 10),
        summary("sum_c", 12, 19),
        *spoken(100),
    ]
    found = condensable(items, {"sum_a": 0, "sum_b": 0, "sum_c": 0}, len(items), MEASURES)
    assert found is not None
    assert (found.start, found.end, found.depth) == (0, 5, 1)


def test_depths_are_never_mixed_and_the_shallowest_come_first():
    names = ["sum_a", "sum_b", "sum_c", "sum_d", "sum_e"]
    items = [summary(name, at * 2 + 1, at * 2 + 2) for at, name in enumerate(names)]
    depths = {"sum_a": 1, "sum_b": 1, "sum_c": 0, "sum_d": 0, "sum_e": 0}
    found = condensable(items, depths, 5, MEASURES)
    assert found is not None
    assert (found.start, found.end, found.depth) == (2, 5, 1)
    deeper = condensable(items, depths | {"sum_e": 1}, 5, MEASURES)
    assert deeper is not None
    assert (deeper.start, deeper.end, deeper.depth) == (0, 2, 2)


def test_an_extract_stands_in_the_way_of_condensing_and_is_merged_with_its_own_kind():
    names = ["sum_a", "sum_b", "sum_x", "sum_y", "sum_z", "sum_c"]
    items = [summary(name, at * 2 + 1, at * 2 + 2) for at, name in enumerate(names)]
    good = {"sum_a": 0, "sum_b": 0, "sum_c": 0}
    assert condensable(items, good, 6, MEASURES) is None
    found = mergeable(items, {"sum_x", "sum_y", "sum_z"}, 6, MEASURES)
    assert found is not None
    assert (found.start, found.end, found.depth, found.merged) == (2, 5, 0, True)


def test_a_small_window_has_smaller_leaves_and_a_smaller_tail():
    small = Measures().within(8_000)
    assert (small.leaf_tokens, small.leaf_target, small.condensed_target, small.tail_tokens) == (
        1_000,
        250,
        250,
        1_600,
    )
    assert Measures().within(1_000_000) == Measures()


def test_the_newest_step_is_fresh_whatever_it_takes():
    items = [*spoken(100), *turn(2, 3, tokens=5_000)]
    assert fresh_from(items, MEASURES) == 3


def test_the_same_words_at_another_place_have_another_key():
    again = [*turn(1, 1, tokens=600), *turn(1, 3, tokens=600), *turn(2, 9, tokens=600)]
    first, second, third, *_ = stretches(again, len(again), MEASURES)
    assert [item.body for item in first.items] == [item.body for item in third.items]
    assert len({first.key, second.key, third.key}) == 3
