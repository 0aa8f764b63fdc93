from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treadle.core.items import text_of
from treadle.engines.lossless.nodes import SummaryNode, node_id, node_key
from treadle.engines.values import ContextItem, EntryRange
from treadle.prompt.engine_fragments import History, history_message, parse_history

from .samples import user

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip)


@given(
    depth=st.integers(0, 9),
    first=st.integers(1, 999),
    turns=st.sampled_from(["", "3", "3-12"]),
    text=st.sampled_from(["Short.", "Two\nlines.", "They (depth 7) of entries 1 to 2."]) | texts,
    degraded=st.booleans(),
)
def test_what_a_summary_says_of_itself_can_be_read_again(depth, first, turns, text, degraded):
    said = History(
        node="sum_0123456789abcdef",
        depth=depth,
        first=first,
        last=first + 7,
        turns=turns,
        text=text.strip(),
        degraded=degraded,
    )
    message = history_message(
        id=said.node,
        depth=depth,
        first=first,
        last=first + 7,
        turns=turns,
        text=text,
        degraded=degraded,
        vocabulary=None,
    )
    read = parse_history(text_of(message.content))
    facts = (read.node, read.depth, read.first, read.last, read.turns, read.degraded)
    assert facts == (said.node, depth, first, first + 7, turns, degraded)
    if "<" not in text and "&" not in text:
        assert read.text == said.text


def test_any_other_text_is_just_a_text():
    assert parse_history("Hello.") == History(node="", first=0, last=0, text="Hello.")


def test_a_node_as_an_item_says_what_it_covers():
    node = SummaryNode(
        id="sum_1", key="k", thread="t", first=2, last=9, text="t", body=b"{}", tokens=5
    )
    assert node.item() == ContextItem(body=b"{}", tokens=5, covers=EntryRange(2, 9), name="sum_1")


def test_a_key_follows_from_entries_words_and_depth():
    said = ContextItem(body=ContextItem.of(user("hello")).body, id="t:1", seq=1)
    forked = ContextItem(body=said.body, id="child:1", seq=1)
    later = ContextItem(body=said.body, id="t:2", seq=2)
    assert node_key([said], 0) == node_key([forked], 0)
    assert (
        len({node_key([said], 0), node_key([later], 0), node_key([said], 1), node_key([], 0)}) == 4
    )


def test_a_name_follows_from_key_and_prompt():
    assert node_id("key", "leaf-1") == node_id("key", "leaf-1")
    assert node_id("key", "leaf-1") != node_id("key", "leaf-strict-1")
    assert node_id("key", "leaf-1").startswith("sum_")
