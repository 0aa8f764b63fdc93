from __future__ import annotations

import pytest

from treadle.models.contract import StreamCut
from treadle.models.item_checks import MOST_ITEMS, MOST_LEVELS, ItemChecker, is_readable

SAID = b'{"type":"message","role":"assistant","content":[]}'


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def test_items_of_a_model_pass():
    soundness = ItemChecker()
    items = (SAID, b'{"type":"function_call"}', b'{"type":"from_tomorrow"}', b'{"type":7}', b"5")
    assert [soundness.error(each) for each in items] == [None] * 5


def test_an_answer_has_so_many_items_and_no_more():
    soundness = ItemChecker()
    assert [soundness.error(SAID) for _ in range(MOST_ITEMS)] == [None] * MOST_ITEMS
    flaw = soundness.error(SAID)
    assert isinstance(flaw, StreamCut)
    assert (flaw.code, flaw.retryable) == ("too_many_items", False)


def test_an_item_nests_so_deep_and_no_deeper():
    assert is_readable(nested(MOST_LEVELS))
    assert not is_readable(nested(MOST_LEVELS + 1))
    assert is_readable(b'["%b"]' % (b"[{" * MOST_LEVELS))


@pytest.mark.parametrize("body", [b'{"x":"\xff"}', b"1e999", b"9" * 5000, b"{", b"", b"[" * 10**6])
def test_what_nobody_could_read_later_is_no_item(body: bytes):
    flaw = ItemChecker().error(body)
    assert flaw is not None
    assert (flaw.code, flaw.retryable) == ("unreadable", True)


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"message","role":"user","content":[]}',
        b'{"type":"message","role":"developer","content":[]}',
        b'{"role":"system","content":[],"type":"message"}',
        b'{"type":"function_call_output","call_id":"c","output":""}',
        b'{"type":"additional_tools","tools":[]}',
        b'{"type":"compaction_trigger"}',
        b'{"type":"agent_message","author":"a","recipient":"b","content":[]}',
    ],
)
def test_a_model_speaks_in_nobody_elses_name(body: bytes):
    flaw = ItemChecker().error(body)
    assert flaw is not None
    assert (flaw.code, flaw.retryable) == ("forged_item", False)
