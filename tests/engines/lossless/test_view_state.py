from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treadle.engines.lossless.library import MOST_THREADS, RecentThreads
from treadle.engines.lossless.view_state import ConversationStats, conversation_stats
from treadle.engines.values import ContextItem, EntryRange

WISH = b'{"type":"function_call","call_id":"c","name":"new_context","arguments":"%s"}'
NOTE = rb'{"type":"function_call","call_id":"c","name":"note_write","arguments":"%s"}'
BODIES = st.sampled_from(
    [
        b'{"type":"message","role":"user","content":[]}',
        WISH % rb"{\"reason\":\"done\"}",
        WISH % rb"{\"reason\":3}",
        NOTE % rb"{\"name\":\"plan\",\"text\":\"x\"}",
        b'{"type":"message","role":"user","content":[{"type":"input_text","text":"note_write"}]}',
    ]
)
ENTRIES = st.builds(
    ContextItem,
    body=BODIES,
    seq=st.integers(1, 99),
    turn=st.integers(0, 5),
    tokens=st.integers(0, 50),
)
SUMMARIES = st.builds(
    ContextItem,
    body=st.just(b"{}"),
    name=st.sampled_from(["sum_1", "sum_2"]),
    covers=st.just(EntryRange(1, 2)),
    tokens=st.integers(0, 50),
)
ITEMS = st.lists(ENTRIES | SUMMARIES, max_size=12).map(tuple)


@given(ITEMS, st.integers(0, 12))
def test_what_is_read_on_comes_to_the_same_as_what_is_read_at_once(
    items: tuple[ContextItem, ...], known: int
):
    assert conversation_stats(items, conversation_stats(items[:known])) == conversation_stats(items)


@given(ITEMS, ITEMS)
def test_what_was_read_before_counts_only_where_it_still_stands(
    items: tuple[ContextItem, ...], other: tuple[ContextItem, ...]
):
    assert conversation_stats(items, conversation_stats(other)) == conversation_stats(items)


def test_a_reading_tells_sizes_summaries_wishes_and_notes():
    items = (
        ContextItem(body=b"{}", name="sum_1", covers=EntryRange(1, 2), tokens=5),
        ContextItem(body=b'{"type":"message","role":"user","content":[]}', seq=3, turn=2, tokens=7),
        ContextItem(body=WISH % rb"{\"reason\":\"done\"}", seq=4, turn=3, tokens=1),
    )
    assert conversation_stats(items) == ConversationStats(
        items=items,
        tokens=13,
        summaries=("sum_1",),
        first_entry=3,
        oldest_turn=2,
        fresh_start_turn=3,
    )
    assert [
        conversation_stats(items).has_open_fresh_start,
        conversation_stats(items[:2]).has_open_fresh_start,
    ] == [True, False]


def test_of_many_threads_the_one_that_was_quiet_longest_is_forgotten():
    known: RecentThreads[int] = RecentThreads()
    for number in range(MOST_THREADS):
        known[str(number)] = number
    known["0"] = 0
    known["new"] = 1
    assert len(known) == MOST_THREADS
    assert [name in known for name in ("0", "1", "2", "new")] == [True, False, True, True]
