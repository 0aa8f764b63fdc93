from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from treadle.engines.lossless.choose import Chosen, choose, token_count
from treadle.engines.lossless.nodes import SummaryNode
from treadle.engines.lossless.plan import stretches
from treadle.engines.values import ContextItem

from .test_plan import MEASURES, conversations, spoken


def nodes(items: list[ContextItem], tokens: int = 100) -> dict[str, SummaryNode]:
    """A node for each stretch of a conversation."""
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
        for part in stretches(items, len(items), MEASURES, unfinished=True)
    }


@given(st.data())
def test_the_oldest_go_first_and_no_more_than_needed(data):
    items = data.draw(conversations())
    parts = stretches(items, len(items), MEASURES, unfinished=True)
    target = data.draw(st.integers(0, token_count(items)))
    chosen = choose(items, parts, nodes(items), target)
    assert chosen.tokens == token_count(chosen.items) <= token_count(items)
    names = [item.name for item in chosen.items if item not in items]
    worth = [part for part in parts if part.tokens > 100]
    assert names == [f"sum_{part.start}" for part in worth][: len(names)]
    if len(names) < len(worth):
        assert chosen.tokens <= target


@given(st.data())
def test_what_is_not_replaced_keeps_its_order_and_its_bytes(data):
    items = data.draw(conversations())
    parts = stretches(items, len(items), MEASURES, unfinished=True)
    kept = [item for item in choose(items, parts, nodes(items), 0).items if item in items]
    assert [items.index(item) for item in kept] == sorted(items.index(item) for item in kept)


def test_what_has_no_node_yet_stays_and_is_told():
    items = spoken(*[150] * 10)
    parts = stretches(items, len(items), MEASURES)
    ready = nodes(items)
    del ready[parts[0].key]
    chosen = choose(items, parts, ready, 0)
    assert chosen == Chosen(
        items=(*items[:6], ready[parts[1].key].item(), *items[12:]),
        tokens=token_count(items) - parts[1].tokens + 100,
        lacking=(parts[0],),
        used=1,
    )


def test_a_node_that_is_no_smaller_than_what_it_stands_for_is_not_shown():
    items = spoken(*[150] * 10)
    parts = stretches(items, len(items), MEASURES)
    large = {key: msgspec.structs.replace(node, tokens=900) for key, node in nodes(items).items()}
    assert choose(items, parts, large, 0) == Chosen(items=tuple(items), tokens=token_count(items))
