from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from treadle.context.row import shape_of
from treadle.context.rules import Pairing
from treadle.core.items import Item
from treadle.engines.lossless.chunks import (
    ItemChunk,
    ReducedItems,
    Thresholds,
    chunk_to_condense,
    chunk_to_merge,
    leaf_chunks,
    replace_chunks,
    tail_start,
    token_count,
)
from treadle.engines.lossless.nodes import SummaryNode
from treadle.engines.values import ContextItem, EntryRange

from .samples import call, ran, says, user

THRESHOLDS = Thresholds(leaf_tokens=1_000, tail_tokens=500, leaf_fan_in=3, fan_in=2)


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
    made = ContextItem.of(user(f"<{name}>"), tokens=tokens, covers=EntryRange(first, last))
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
        compacted = draw(st.integers(0, 3)) == 0 and number > 1
        items += [summary(f"sum_{number}", made[0].seq or 0, seq - 1)] if compacted else made
    return items


def lives(items: Sequence[ContextItem]) -> list[int]:
    """Where a current turn could begin."""
    starts = [at for at, item in enumerate(items) if shape_of(item.body).role == "user"]
    return [*(at for at in starts if items[at].seq is not None), len(items)]


@given(st.data())
def test_chunks_are_disjoint_sorted_raw_and_before_what_is_fresh(data):
    items = data.draw(conversations())
    live = data.draw(st.sampled_from(lives(items)))
    found = leaf_chunks(items, live, THRESHOLDS, unfinished=data.draw(st.booleans()))
    ends = [0, *(at for part in found for at in (part.start, part.end))]
    assert ends == sorted(ends)
    assert all(part.start < part.end <= tail_start(items, THRESHOLDS) for part in found)
    assert all(item.seq is not None for part in found for item in part.items)
    assert all(part.items == tuple(items[part.start : part.end]) for part in found)


@given(st.data())
def test_a_chunk_parts_no_call_from_its_output_and_no_step(data):
    items = data.draw(conversations())
    for part in leaf_chunks(items, len(items), THRESHOLDS, unfinished=True):
        pairing = Pairing()
        shapes = [shape_of(item.body) for item in part.items]
        assert all(pairing.admits(shape, at) for at, shape in enumerate(shapes))
        assert pairing.open == {}
        for border in (part.start, part.end):
            if 0 < border < len(items):
                left, right = items[border - 1], items[border]
                assert (left.turn, left.step) != (right.turn, right.step) or not left.turn


@given(st.data())
def test_what_was_said_to_the_current_turn_is_in_no_chunk(data):
    items = data.draw(conversations())
    live = data.draw(st.sampled_from(lives(items)))
    parts = leaf_chunks(items, live, THRESHOLDS, upto=len(items), unfinished=True)
    names = [item.name for item in items if item.name]
    older = chunk_to_condense(items, dict.fromkeys(names, 0), live, THRESHOLDS)
    said = {at for at in range(live, len(items)) if shape_of(items[at].body).role == "user"}
    for part in [*parts, *([older] if older else [])]:
        assert not said & {at for at in range(part.start, part.end) if items[at].seq is not None}


@given(st.data())
def test_what_is_appended_later_moves_no_border(data):
    items = data.draw(conversations())
    more = turn(99, 9_000, calls=data.draw(st.integers(0, 4)))
    before = [part.key for part in leaf_chunks(items, len(items), THRESHOLDS)]
    after = leaf_chunks([*items, *more], len(items), THRESHOLDS)
    assert [part.key for part in after][: len(before)] == before


def spoken(*sizes: int) -> list[ContextItem]:
    items: list[ContextItem] = []
    for number, tokens in enumerate(sizes, 1):
        items += turn(number, len(items) + 1, tokens=tokens)
    return items


def ends(parts: Sequence[ItemChunk]) -> list[tuple[int, int]]:
    return [(part.start, part.end) for part in parts]


def test_a_chunk_ends_where_a_turn_does_if_that_is_in_its_later_half():
    assert ends(leaf_chunks(spoken(*[150] * 10), 20, THRESHOLDS)) == [(0, 6), (6, 12)]


def test_a_step_that_is_larger_than_a_leaf_is_a_chunk_of_its_own():
    items = [*spoken(100), *turn(2, 3, tokens=2_000), *turn(3, 5), *turn(4, 7, tokens=400)]
    assert ends(leaf_chunks(items, len(items), THRESHOLDS)) == [(0, 2), (2, 3), (3, 4)]


def test_a_chunk_that_is_exactly_full_waits_for_what_decides_its_end():
    items = [*turn(1, 1, tokens=700), *turn(2, 3, calls=3)]
    assert ends(leaf_chunks(items, len(items), THRESHOLDS)) == [(0, 1)]
    more = turn(3, 11, tokens=300)
    assert ends(leaf_chunks([*items, *more], 12, THRESHOLDS))[:2] == [(0, 1), (1, 2)]


def test_the_last_chunk_may_still_grow_unless_nobody_waits():
    items = spoken(*[100] * 4)
    assert ends(leaf_chunks(items, 8, THRESHOLDS)) == []
    assert ends(leaf_chunks(items, 8, THRESHOLDS, unfinished=True)) == [(0, 3)]


def test_what_lies_between_summaries_is_a_chunk_where_it_is_no_scrap():
    large, small = turn(1, 10, tokens=200), turn(2, 20)
    items = [
        summary("sum_a", 1, 9),
        *large,
        summary("sum_b", 12, 19),
        *small,
        summary("sum_c", 22, 29),
        *spoken(300),
    ]
    assert ends(leaf_chunks(items, len(items), THRESHOLDS)) == [(1, 3)]


def test_neighbouring_summaries_of_one_depth_are_condensed_with_the_scraps_between_them():
    items = [
        summary("sum_a", 1, 4),
        summary("sum_b", 5, 9),
        *turn(2, 10),
        summary("sum_c", 12, 19),
        *spoken(100),
    ]
    found = chunk_to_condense(items, {"sum_a": 0, "sum_b": 0, "sum_c": 0}, len(items), THRESHOLDS)
    assert found is not None
    assert (found.start, found.end, found.depth) == (0, 5, 1)


def test_depths_are_never_mixed_and_the_shallowest_come_first():
    names = ["sum_a", "sum_b", "sum_c", "sum_d", "sum_e"]
    items = [summary(name, at * 2 + 1, at * 2 + 2) for at, name in enumerate(names)]
    depths = {"sum_a": 1, "sum_b": 1, "sum_c": 0, "sum_d": 0, "sum_e": 0}
    found = chunk_to_condense(items, depths, 5, THRESHOLDS)
    assert found is not None
    assert (found.start, found.end, found.depth) == (2, 5, 1)
    deeper = chunk_to_condense(items, depths | {"sum_e": 1}, 5, THRESHOLDS)
    assert deeper is not None
    assert (deeper.start, deeper.end, deeper.depth) == (0, 2, 2)


def test_an_extract_stands_in_the_way_of_condensing_and_is_merged_with_its_own_kind():
    names = ["sum_a", "sum_b", "sum_x", "sum_y", "sum_z", "sum_c"]
    items = [summary(name, at * 2 + 1, at * 2 + 2) for at, name in enumerate(names)]
    good = {"sum_a": 0, "sum_b": 0, "sum_c": 0}
    assert chunk_to_condense(items, good, 6, THRESHOLDS) is None
    found = chunk_to_merge(items, {"sum_x", "sum_y", "sum_z"}, 6, THRESHOLDS)
    assert found is not None
    assert (found.start, found.end, found.depth, found.merged) == (2, 5, 0, True)


def test_a_small_window_has_smaller_leaves_and_a_smaller_tail():
    small = Thresholds().for_budget(8_000)
    assert (small.leaf_tokens, small.leaf_target, small.condensed_target, small.tail_tokens) == (
        1_000,
        250,
        250,
        1_600,
    )
    assert Thresholds().for_budget(1_000_000) == Thresholds()


def test_the_newest_step_is_fresh_whatever_it_takes():
    items = [*spoken(100), *turn(2, 3, tokens=5_000)]
    assert tail_start(items, THRESHOLDS) == 3


def test_the_same_words_at_another_place_have_another_key():
    again = [*turn(1, 1, tokens=600), *turn(1, 3, tokens=600), *turn(2, 9, tokens=600)]
    first, second, third, *_ = leaf_chunks(again, len(again), THRESHOLDS)
    assert [item.body for item in first.items] == [item.body for item in third.items]
    assert len({first.key, second.key, third.key}) == 3


def nodes(items: list[ContextItem], tokens: int = 100) -> dict[str, SummaryNode]:
    """A node for each chunk of a conversation."""
    return {
        part.key: SummaryNode(
            id=f"sum_{part.start}",
            key=part.key,
            thread="t",
            first=part.items[0].seq or 0,
            last=part.items[-1].seq or 0,
            text="short",
            body=b'{"type":"message"}',
            tokens=tokens,
        )
        for part in leaf_chunks(items, len(items), THRESHOLDS, unfinished=True)
    }


@given(st.data())
def test_the_oldest_go_first_and_no_more_than_needed(data):
    items = data.draw(conversations())
    parts = leaf_chunks(items, len(items), THRESHOLDS, unfinished=True)
    target = data.draw(st.integers(0, token_count(items)))
    reduced = replace_chunks(items, parts, nodes(items), target)
    assert reduced.tokens == token_count(reduced.items) <= token_count(items)
    names = [item.name for item in reduced.items if item not in items]
    worth = [part for part in parts if part.tokens > 100]
    assert names == [f"sum_{part.start}" for part in worth][: len(names)]
    if len(names) < len(worth):
        assert reduced.tokens <= target


@given(st.data())
def test_what_is_not_replaced_keeps_its_order_and_its_bytes(data):
    items = data.draw(conversations())
    parts = leaf_chunks(items, len(items), THRESHOLDS, unfinished=True)
    kept = [item for item in replace_chunks(items, parts, nodes(items), 0).items if item in items]
    assert [items.index(item) for item in kept] == sorted(items.index(item) for item in kept)


def test_what_has_no_node_yet_stays_and_is_told():
    items = spoken(*[150] * 10)
    parts = leaf_chunks(items, len(items), THRESHOLDS)
    ready = nodes(items)
    del ready[parts[0].key]
    reduced = replace_chunks(items, parts, ready, 0)
    assert reduced == ReducedItems(
        items=(*items[:6], ready[parts[1].key].item(), *items[12:]),
        tokens=token_count(items) - parts[1].tokens + 100,
        missing=(parts[0],),
        replaced=1,
    )


def test_a_node_that_is_no_smaller_than_what_it_stands_for_is_not_shown():
    items = spoken(*[150] * 10)
    parts = leaf_chunks(items, len(items), THRESHOLDS)
    large = {key: msgspec.structs.replace(node, tokens=900) for key, node in nodes(items).items()}
    assert replace_chunks(items, parts, large, 0) == ReducedItems(
        items=tuple(items), tokens=token_count(items)
    )
