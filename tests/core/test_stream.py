from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from treadle.core.items import CustomToolCall, Unknown
from treadle.core.stream import (
    ErrorDetails,
    ErrorEvent,
    ModelsEtag,
    OutputItemAdded,
    OutputItemDone,
    OutputTextDelta,
    RateLimits,
    RateLimitsEvent,
    ReasoningSummaryDelta,
    ReasoningSummaryDone,
    ReasoningSummaryPartAdded,
    ReasoningTextDelta,
    ResponseBody,
    ResponseCompleted,
    ResponseCreated,
    ResponseFailed,
    ResponseIncomplete,
    ResponseMetadata,
    ServerModel,
    ToolInputDelta,
    UnknownEvent,
    decode_event,
    header_signals,
    retry_delay,
)
from treadle.core.usage import Credits, RateLimitSnapshot, RateLimitWindow, TokenUsage
from treadle.core.wire import json_bytes


def event(kind: str, **fields: object) -> bytes:
    return json.dumps({"type": kind, **fields}).encode()


DECODED = [
    (event("response.created", response={"id": "r1"}), ResponseCreated(ResponseBody(id="r1"))),
    (
        event("response.output_text.delta", delta="hi", item_id="m", logprobs=[]),
        OutputTextDelta("hi", "m"),
    ),
    (
        event("response.custom_tool_call_input.delta", delta="*** B", item_id="ctc_1"),
        ToolInputDelta("*** B", "ctc_1"),
    ),
    (
        event("response.reasoning_summary_text.delta", delta="t", summary_index=2),
        ReasoningSummaryDelta(2, "t"),
    ),
    (
        event("response.reasoning_summary_text.done", item_id="rs", text="tt", summary_index=0),
        ReasoningSummaryDone(0, "tt", "rs"),
    ),
    (
        event("response.reasoning_summary_part.added", summary_index=1, part={"type": "x"}),
        ReasoningSummaryPartAdded(1),
    ),
    (
        event("response.reasoning_text.delta", delta="r", content_index=0),
        ReasoningTextDelta(0, "r"),
    ),
    (
        event("error", status=429, error={"code": "slow_down", "message": "wait"}),
        ErrorEvent(status=429, error=ErrorDetails(code="slow_down", message="wait")),
    ),
]


@pytest.mark.parametrize(("data", "expected"), DECODED, ids=lambda v: type(v).__name__)
def test_each_event_is_read_by_its_wire_name(data, expected):
    assert decode_event(data) == expected
    assert decode_event(json_bytes(expected)) == expected


@pytest.mark.parametrize(
    ("kind", "struct"),
    [
        ("response.output_item.added", OutputItemAdded),
        ("response.output_item.done", OutputItemDone),
    ],
)
def test_items_keep_their_bytes_and_are_decoded_when_asked_for(kind, struct):
    data = b'{"type":"%s","output_index":3,"item":{"type":"novelty", "x":[1.0]}}' % kind.encode()
    decoded = decode_event(data)
    assert isinstance(decoded, struct)
    assert (bytes(decoded.body), decoded.output_index) == (b'{"type":"novelty", "x":[1.0]}', 3)
    assert decoded.item == Unknown(Raw(b'{"type":"novelty", "x":[1.0]}'))


def test_a_finished_item_of_a_known_type_is_that_item():
    body = {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "x"}
    decoded = decode_event(event("response.output_item.done", item=body))
    assert isinstance(decoded, OutputItemDone)
    assert decoded.item == CustomToolCall(call_id="c", name="apply_patch", input="x")


def test_completion_tells_the_usage_and_whether_the_turn_ends():
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 7},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 109,
    }
    response = {"id": "r1", "usage": usage, "end_turn": True, "output": [], "status": "completed"}
    decoded = decode_event(event("response.completed", response=response))
    assert isinstance(decoded, ResponseCompleted)
    assert (decoded.response.id, decoded.response.end_turn) == ("r1", True)
    assert decoded.usage == TokenUsage(100, 40, 7, 9, 4, 109)


def test_completion_without_usage_reports_none():
    decoded = decode_event(event("response.completed", response={"id": "r1", "usage": None}))
    assert isinstance(decoded, ResponseCompleted)
    assert (decoded.usage, decoded.response.end_turn) == (None, None)


def test_a_failure_keeps_code_message_and_the_delay_of_a_rate_limit():
    error = {"code": "rate_limit_exceeded", "message": "Please try again in 1.5s.", "type": "t"}
    limited = decode_event(event("response.failed", response={"id": "r", "error": error}))
    assert isinstance(limited, ResponseFailed)
    assert (limited.code, limited.message, limited.retry_after) == (
        "rate_limit_exceeded",
        "Please try again in 1.5s.",
        1.5,
    )
    other = decode_event(
        event("response.failed", response={"error": {**error, "code": "server_is_overloaded"}})
    )
    assert isinstance(other, ResponseFailed)
    assert (other.code, other.retry_after) == ("server_is_overloaded", None)


@pytest.mark.parametrize("response", [{}, {"error": None}, {"error": {}}])
def test_a_failure_that_says_nothing_is_still_a_failure(response):
    decoded = decode_event(event("response.failed", response=response))
    assert isinstance(decoded, ResponseFailed)
    assert (decoded.code, decoded.message, decoded.retry_after) == ("", "", None)


@pytest.mark.parametrize(
    ("details", "reason"),
    [({"reason": "max_output_tokens"}, "max_output_tokens"), ({}, "unknown"), (None, "unknown")],
)
def test_an_incomplete_response_says_why(details, reason):
    decoded = decode_event(event("response.incomplete", response={"incomplete_details": details}))
    assert isinstance(decoded, ResponseIncomplete)
    assert decoded.reason == reason


def test_input_of_a_call_without_an_item_id_belongs_to_the_call():
    assert ToolInputDelta("x", None, "c1").target == "c1"
    assert ToolInputDelta("x", "i1", "c1").target == "i1"


def test_rate_limits_inside_a_stream_have_the_shape_of_those_in_headers():
    decoded = decode_event(
        event(
            "codex.rate_limits",
            plan_type="plus",
            rate_limits={
                "allowed": True,
                "primary": {"used_percent": 12.5, "window_minutes": 300, "reset_at": 1_700_000_000},
                "secondary": None,
            },
            credits={"has_credits": True, "unlimited": False, "balance": "3"},
        )
    )
    assert isinstance(decoded, RateLimitsEvent)
    assert decoded.snapshot == RateLimitSnapshot(
        limit_id="codex",
        primary=RateLimitWindow(12.5, 300, 1_700_000_000),
        credits=Credits(True, False, "3"),
        plan_type="plus",
    )


def test_metadata_is_kept_verbatim():
    data = b'{"type":"response.metadata", "turn_state":"abc"}'
    assert decode_event(data) == ResponseMetadata(Raw(data))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"type":"response.in_progress","response":{}}', "response.in_progress"),
        (b'{"type":"response.created"}', "response.created"),
        (b'{"type":"response.completed","response":{"usage":{}}}', "response.completed"),
        (
            b'{"type":"response.reasoning_text.delta","delta":"x"}',
            "response.reasoning_text.delta",
        ),
        (b'{"type":""}', ""),
    ],
)
def test_what_cannot_be_read_comes_back_whole_and_named(data, kind):
    assert decode_event(data) == UnknownEvent(kind, Raw(data))


@pytest.mark.parametrize(
    "data",
    [b"", b"[DONE]", b"null", b"[]", b"{}", b'{"type":1}', b'{"type":"x"', b'{"type":"\xff"}'],
)
def test_what_is_no_typed_object_is_nothing(data):
    assert decode_event(data) is None


@given(st.binary(max_size=60))
def test_no_data_line_raises(data):
    decode_event(data)
    decode_event(b'{"type":"response.completed","response":' + data)


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Rate limit reached. Please try again in 1.898s. Visit", 1.898),
        ("TRY AGAIN IN 20 ms", 0.02),
        ("try again in 35 seconds.", 35.0),
        ("try again in 1 second", 1.0),
        ("try again in a minute", None),
        ("try again later", None),
        ("", None),
    ],
)
def test_a_requested_delay_is_found_in_words(message, seconds):
    assert retry_delay(message) == seconds


def test_headers_tell_their_signals_in_order():
    assert header_signals(
        {
            "X-Models-Etag": 'W/"7"',
            "x-codex-primary-used-percent": "10",
            "x-codex-primary-window-minutes": "60",
            "x-codex-other-primary-used-percent": "5",
            "OpenAI-Model": "gpt-5.5-2026-04-01",
        }
    ) == (
        ServerModel("gpt-5.5-2026-04-01"),
        RateLimits(RateLimitSnapshot(limit_id="codex", primary=RateLimitWindow(10.0, 60))),
        RateLimits(RateLimitSnapshot(limit_id="codex_other", primary=RateLimitWindow(5.0))),
        ModelsEtag('W/"7"'),
    )
    assert header_signals({"content-type": "text/event-stream"}) == ()
