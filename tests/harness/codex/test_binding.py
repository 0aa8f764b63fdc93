from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from treadle.core.entries import ProjectionMark
from treadle.core.specs import FunctionTool, parameters
from treadle.harness.codex.binding import (
    KEY,
    TOPIC,
    Binding,
    decide_reuse,
    read_binding,
    tools_fingerprint,
)
from treadle.store.contract import OutboxRow

PLAN = ProjectionMark("probe", "winter", "1")
BOUND = Binding(
    thread="thread_1",
    codex="codex_1",
    engine="probe",
    policy="p1",
    tools="t1",
    model="openai:gpt-5.5",
    instructions="i1",
    mode="native",
    base=7,
    plan=PLAN,
)


def bound(**changes: Any) -> Binding:
    return msgspec.structs.replace(BOUND, **changes)


TEXT = bound(mode="text")
DECISIONS = {
    "missing-thread-binding": (None, BOUND),
    "foreign-binding": (bound(thread="thread_2"), BOUND),
    "missing-projection-binding": (bound(plan=None), BOUND),
    "context-engine-binding-mismatch": (bound(engine="other"), BOUND),
    "context-engine-binding-mismatch (policy)": (bound(policy="p2"), BOUND),
    "dynamic-tools-mismatch": (bound(tools="t2"), BOUND),
    "model-mismatch": (bound(model="openai:other"), BOUND),
    "projection-mismatch (epoch)": (bound(plan=ProjectionMark("probe", "spring", "1")), BOUND),
    "projection-mismatch (fingerprint)": (
        bound(plan=ProjectionMark("probe", "winter", "2")),
        BOUND,
    ),
    "projection-mismatch (for a turn)": (BOUND, bound(plan=None)),
    "projection-mismatch (mode)": (TEXT, BOUND),
    "instructions-mismatch": (TEXT, bound(mode="text", instructions="i2")),
    "epoch-mismatch": (BOUND, bound(base=9)),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_a_thread_that_was_started_for_anything_else_is_replaced_and_it_is_said_why(name):
    known, wanted = DECISIONS[name]
    decision = decide_reuse(known, wanted, missing="", shows_view=True)
    assert (decision.fresh, decision.reason) == (True, name.partition(" ")[0])


SERVES = {
    "matching-thread-bootstrap-binding": (BOUND, BOUND),
    "per-turn-projection": (bound(plan=None), bound(plan=None)),
    "matching-thread-bootstrap-binding (instructions)": (BOUND, bound(instructions="i2")),
    "matching-thread-bootstrap-binding (text)": (TEXT, TEXT),
}


@pytest.mark.parametrize("name", SERVES)
def test_a_thread_that_was_started_for_what_is_wanted_serves(name):
    known, wanted = SERVES[name]
    decision = decide_reuse(known, wanted, missing="", shows_view=True)
    assert (decision.fresh, decision.reason) == (False, name.partition(" ")[0])


def test_a_thread_that_is_gone_or_shows_other_rows_is_replaced():
    gone = decide_reuse(BOUND, BOUND, missing="app-server-restarted", shows_view=True)
    other = decide_reuse(BOUND, BOUND, missing="", shows_view=False)
    assert (gone.fresh, gone.reason) == (True, "app-server-restarted")
    assert (other.fresh, other.reason) == (True, "view-mismatch")


def test_what_differs_is_said_although_the_thread_is_gone():
    decision = decide_reuse(
        bound(tools="t2"), BOUND, missing="app-server-restarted", shows_view=False
    )
    assert decision.reason == "dynamic-tools-mismatch"


specs = st.lists(
    st.builds(
        lambda name, text: FunctionTool(
            name=name, description=text, parameters=parameters({"what": {"type": "string"}})
        ),
        st.sampled_from(("weigh", "measure", "count")),
        st.text(max_size=3),
    ),
    max_size=4,
)


@given(specs, st.randoms())
def test_the_order_of_tools_is_no_part_of_their_fingerprint(tools, chance):
    shuffled = list(tools)
    chance.shuffle(shuffled)
    assert tools_fingerprint(shuffled) == tools_fingerprint(tools)


@given(specs, specs)
def test_other_tools_have_another_fingerprint(one, other):
    said = [sorted((tool.name, tool.description) for tool in tools) for tools in (one, other)]
    same = said[0] == said[1]
    assert (tools_fingerprint(one) == tools_fingerprint(other)) is same


NEWER = msgspec.json.encode(bound(version=2))


@pytest.mark.parametrize("body", [b"{}", b"[1]", b'"text"', b"null", NEWER])
def test_a_binding_that_cannot_be_read_is_none(body):
    row = OutboxRow(
        number=1, thread="thread_1", topic=TOPIC, key=KEY, body=Raw(body), created=0, updated=0
    )
    assert read_binding(row) is None
