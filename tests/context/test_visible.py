from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treadle.context.visible import outside, visible_backwards, visible_stretches
from treadle.core.entries import Rollback, control_draft
from treadle.store.contract import Change, Store
from treadle.store.memory import MemoryStore
from treadle.testing.contracts.drafts import append, user_draft

SPANS = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 8)), max_size=6)


async def written(cuts: list[int | None]) -> tuple[Store, str]:
    """A thread with an entry for each; a number is a rollback to before that entry."""
    store = MemoryStore()
    thread = (await store.create()).id
    drafts = [user_draft("x") if cut is None else control_draft(Rollback(cut)) for cut in cuts]
    await append(store, thread, Change(entries=tuple(drafts)))
    return store, thread


@given(st.data())
async def test_what_is_found_without_a_walk_is_what_a_walk_finds(data):
    size = data.draw(st.integers(1, 30))
    cuts = [
        data.draw(st.none() | st.integers(1, at)) if at > 1 else None for at in range(1, size + 1)
    ]
    first, last, upto = (data.draw(st.integers(1, size)) for _ in range(3))
    store, thread = await written(cuts)
    spans = await visible_stretches(store, thread, first, last, upto=upto)
    walked = [entry.seq async for entry in visible_backwards(store, thread, upto=upto)]
    found = [seq for low, high in spans for seq in range(low, high + 1)]
    assert found == [seq for seq in walked[::-1] if first <= seq <= last]


@given(SPANS, SPANS)
def test_what_is_outside_is_in_no_hidden_stretch(spans, hidden):
    wanted = [(low, low + size) for low, size in spans]
    gaps = sorted((low, low + size) for low, size in hidden)
    joined: list[tuple[int, int]] = []
    for low, high in gaps:
        if not joined or low > joined[-1][1]:
            joined.append((low, high))
    gone = {seq for low, high in joined for seq in range(low, high + 1)}
    found = [seq for low, high in outside(wanted, joined) for seq in range(low, high + 1)]
    assert found == [seq for low, high in wanted for seq in range(low, high + 1) if seq not in gone]
