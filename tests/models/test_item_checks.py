from __future__ import annotations

import pytest

from treadle.models.contract import StreamCut
from treadle.models.item_checks import (
    MOST_ITEMS,
    MOST_LEVELS,
    RUN_BY_MESSAGES,
    ItemChecker,
    is_readable,
)

SAID = b'{"type":"message","role":"assistant","content":[]}'
CALL = b'{"type":"function_call","id":"%b","call_id":"%b","name":"look","arguments":"%b"}'


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def refusal(body: bytes) -> StreamCut:
    checker = ItemChecker()
    assert not checker.admits(body)
    assert checker.failure is not None
    return checker.failure


def test_items_of_a_model_pass():
    checker = ItemChecker()
    items = (
        SAID,
        CALL % (b"i", b"c", b""),
        b'{"type":"custom_tool_call","call_id":"d","name":"patch","input":""}',
        b'{"type":"local_shell_call","id":"e","status":"completed","action":{}}',
        b'{"type":"reasoning","summary":[],"from":"tomorrow"}',
        b'{"type":"image_generation_call","status":"failed","result":null}',
        b'{"type":"web_search_call","action":{"type":"dream"}}',
        b'{"type":"compaction","encrypted_content":"x"}',
        b'{"type":"mcp_call","output":"what the provider ran"}',
    )
    assert [checker.admits(each) for each in items] == [True] * len(items)
    assert checker.failure is None


def test_what_a_provider_runs_itself_depends_on_its_api():
    block = b'{"type":"web_search_tool_result","content":[]}'
    assert ItemChecker(RUN_BY_MESSAGES).admits(block)
    assert refusal(block).code == "forged_item"


def test_an_answer_has_so_many_items_and_no_more():
    checker = ItemChecker()
    assert [checker.admits(SAID) for _ in range(MOST_ITEMS)] == [True] * MOST_ITEMS
    assert not checker.admits(SAID)
    flaw = checker.failure
    assert isinstance(flaw, StreamCut)
    assert (flaw.code, flaw.retryable) == ("too_many_items", False)


def test_an_item_nests_so_deep_and_no_deeper():
    assert is_readable(nested(MOST_LEVELS))
    assert not is_readable(nested(MOST_LEVELS + 1))
    assert is_readable(b'["%b"]' % (b"[{" * MOST_LEVELS))


@pytest.mark.parametrize(
    "body",
    [
        *(b'{"x":"\xff"}', b"1e999", b"9" * 5000, b"{", b"", b"[" * 10**6),
        b'{"type":"message","role":"assistant","content":"no parts"}',
        b'{"type":"function_call","call_id":"c","name":null,"arguments":""}',
    ],
)
def test_what_nobody_could_read_later_is_no_item(body: bytes):
    flaw = refusal(body)
    assert (flaw.code, flaw.retryable) == ("unreadable", True)


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"message","role":"user","content":[]}',
        b'{"type":"message","role":"developer","content":[]}',
        b'{"role":"system","content":[],"type":"message"}',
        b'{"type":"message","role":["user"],"content":[]}',
        b'{"type":"message","role":"System","content":[]}',
        b'{"type":"message","role":"assistant","role":"user","content":[]}',
        b'{"type":"function_call_output","call_id":"c","output":""}',
        b'{"type":"custom_tool_call_output","call_id":"c","output":""}',
        b'{"type":"local_shell_call_output","call_id":"c","output":""}',
        b'{"type":"computer_call_output","call_id":"c","output":""}',
        b'{"type":"tool_search_output","status":"x","execution":"client","tools":[{"name":"x"}]}',
        b'{"type":"tool_search_call","execution":"client","arguments":{}}',
        b'{"type":"mcp_approval_response","approve":true}',
        b'{"type":"mcp_call","type":"mcp_call"}',
        b'{"type":"item_reference","id":"x"}',
        b'{"type":"additional_tools","tools":[]}',
        b'{"type":"compaction_trigger"}',
        b'{"type":"agent_message","author":"a","recipient":"b","content":[]}',
        b'{"type":"from_tomorrow"}',
        b'{"role":"system","content":"no type"}',
        b'{"type":null,"role":"user","content":"x"}',
        b'{"type":7}',
        *(b"5", b"null", b'"x"', b"[1]", b"{}"),
    ],
)
def test_a_model_speaks_in_nobody_elses_name(body: bytes):
    flaw = refusal(body)
    assert (flaw.code, flaw.retryable) == ("forged_item", True)


@pytest.mark.parametrize(
    "body",
    [
        CALL % (b"i", b"", b""),
        b'{"type":"function_call","call_id":null,"name":"look","arguments":""}',
        b'{"type":"function_call","name":"look","arguments":""}',
        b'{"type":"custom_tool_call","call_id":7,"name":"patch","input":""}',
        b'{"type":"local_shell_call","status":"completed","action":{}}',
    ],
)
def test_a_call_without_an_id_ends_the_answer(body: bytes):
    flaw = refusal(body)
    assert (flaw.code, flaw.retryable) == ("call_without_id", True)


def test_a_repeated_call_counts_once():
    checker = ItemChecker()
    calls = (CALL % (b"i", b"c", b"{}"), CALL % (b"j", b"c", b"{}"), CALL % (b"j", b"d", b"{}"))
    assert [checker.admits(each) for each in calls] == [True, False, True]
    assert checker.failure is None


def test_another_call_with_the_same_id_ends_the_answer():
    checker = ItemChecker()
    assert checker.admits(CALL % (b"i", b"c", b"{}"))
    assert not checker.admits(CALL % (b"i", b"c", b"[]"))
    assert checker.failure is not None
    assert (checker.failure.code, checker.failure.retryable) == ("repeated_call_id", True)
