from __future__ import annotations

from treadle.context.row import Row
from treadle.core.entries import Draft, Flags
from treadle.core.items import encode_item
from treadle.core.provenance import InputProvenance, InternalEvent
from treadle.prompt.input import user_message

BODY = encode_item(user_message("the build is green"))
SENT = InputProvenance(kind="inter_session", source_thread="thr_child")
DONE = InternalEvent(source="subagent", child_thread="thr_child", task="build", status="ok")


def test_a_row_carries_the_signals_of_its_entry():
    row = Row.of_draft(Draft(body=BODY, provenance=SENT, events=(DONE,)), seq=7)
    assert (row.provenance, row.events) == (SENT, (DONE,))


def test_a_row_without_signals_has_none():
    row = Row.of_draft(Draft(body=BODY))
    assert (row.provenance, row.events) == (None, ())
    inline = Row.of_inline(row.as_inline())
    assert (inline.provenance, inline.events) == (None, ())


def test_a_row_knows_whether_it_is_volatile():
    assert Row.of_draft(Draft(body=BODY, flags=Flags.VOLATILE | Flags.HIDDEN)).volatile
    assert not Row.of_draft(Draft(body=BODY, flags=Flags.HIDDEN)).volatile
