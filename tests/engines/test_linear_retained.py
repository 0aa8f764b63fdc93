from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from treadle.context.compose import input_draft, item_draft
from treadle.context.row import Row
from treadle.context.rules import legal_cuts, normalise
from treadle.core.entries import Flags
from treadle.core.items import FunctionCall, FunctionCallOutput, InputText, Item, Message, text_of
from treadle.core.provenance import InputProvenance, InternalEvent
from treadle.core.text import approx_tokens
from treadle.engines.linear import (
    LIVE_TOKENS,
    compactable_rows,
    live_announcements,
    live_start,
    retained_messages,
)
from treadle.engines.linear_summary import without_oldest
from treadle.prompt import default_registry
from treadle.prompt.instructions import summary_message


def user(text: str) -> Message:
    return Message(role="user", content=(InputText(text),))


def row(item: Item, seq: int, turn: int = 1, step: int = 0, flags: Flags = Flags.NONE) -> Row:
    made = Row.of_draft(item_draft(item, turn=turn, step=step, flags=flags))
    return msgspec.structs.replace(made, seq=seq)


TEXTS = st.lists(st.text(min_size=1, max_size=400).filter(str.strip), max_size=12)


@given(TEXTS, st.integers(0, 300))
def test_the_newest_messages_stay_in_order_and_within_the_budget(texts, budget):
    rows = [row(user(text), n) for n, text in enumerate(texts, 1)]
    kept = [text_of(message.content) for message in retained_messages(rows, None, budget)]
    whole = kept[1:]
    assert texts[len(texts) - len(whole) :] == whole
    assert sum(approx_tokens(len(text.encode())) for text in whole) <= budget
    if len(kept) > 1:
        assert kept[0] == texts[-len(kept)] or "truncated" in kept[0]


@given(TEXTS)
def test_context_and_summaries_are_never_collected(texts):
    rows = []
    for n, text in enumerate(texts):
        rows.append(row(user(text), 3 * n + 1, flags=Flags.CONTEXTUAL))
        rows.append(row(summary_message(text), 3 * n + 2))
    assert retained_messages(rows, None) == []


def steps(sizes: list[int]) -> list[Row]:
    """A turn with one call and its output for each size."""
    rows = [row(user("go"), 1)]
    for step, size in enumerate(sizes, 1):
        call = FunctionCall(name="f", arguments="{}", call_id=f"c{step}")
        output = FunctionCallOutput(call_id=f"c{step}", output="x" * size)
        rows += [row(call, 2 * step, step=step), row(output, 2 * step + 1, step=step)]
    return rows


SIZES = st.lists(st.integers(0, 40_000), min_size=1, max_size=12)


@given(SIZES, st.none() | st.integers(1, 40_000))
def test_live_rows_begin_at_a_legal_cut_and_hold_the_newest_step(sizes, limit):
    rows = steps(sizes)
    start = live_start(rows, limit)
    assert start in legal_cuts(rows)
    assert start <= len(rows) - 2
    earlier = sum(each.tokens for each in rows[start:-2])
    assert earlier <= (LIVE_TOKENS if limit is None else min(LIVE_TOKENS, limit // 4))


@given(SIZES)
def test_leaving_out_the_oldest_keeps_calls_and_outputs_together_to_the_end(sizes):
    rows = steps(sizes)
    for _ in range(len(rows) + 1):
        shorter = without_oldest(rows)
        assert normalise(shorter) == shorter
        assert len(shorter) < len(rows) or not rows
        rows = shorter
    assert rows == []


PEER = InputProvenance(kind="inter_session", source_thread="thr_peer")
ANNOUNCED = InputProvenance(kind="inter_session", source_tool="subagent_announce")
DONE = InternalEvent(source="subagent", child_thread="c", task="t", status="ok", result="passed")


def sent(
    text: str,
    seq: int,
    provenance: InputProvenance | None = None,
    *events: InternalEvent,
    turn: int = 1,
) -> Row:
    registry = default_registry()
    made = input_draft(user(text), registry, turn=turn, provenance=provenance, events=events)
    return Row.of_draft(made, seq)


def test_what_another_thread_sent_is_never_collected_as_the_users():
    rows = [
        sent("from a person", 1, InputProvenance(kind="external_user")),
        sent("from a peer", 2, PEER),
        sent("announced", 3, ANNOUNCED, DONE),
        sent("from the principal", 4, InputProvenance(kind="internal_system")),
        sent("with a report", 5, None, DONE),
    ]
    kept = [text_of(message.content) for message in retained_messages(rows, None)]
    assert kept == ["from a person", "from the principal", "with a report"]


def test_what_is_volatile_is_never_collected_whoever_said_it():
    assert retained_messages([row(user("psst"), 1, flags=Flags.VOLATILE)], None) == []


def test_a_summary_never_speaks_of_what_is_volatile():
    rows = [sent("one", 1), sent("announced", 2, ANNOUNCED, DONE), sent("from a peer", 3, PEER)]
    assert [row.seq for row in compactable_rows(rows)] == [1, 3]


def test_what_others_sent_to_the_turn_under_way_stays():
    rows = [
        sent("announced before", 1, ANNOUNCED, DONE, turn=1),
        sent("one", 2, turn=2),
        sent("announced", 3, ANNOUNCED, DONE, turn=2),
        sent("from a peer", 4, PEER, turn=2),
    ]
    assert [row.seq for row in live_announcements(rows, 2)] == [3, 4]
