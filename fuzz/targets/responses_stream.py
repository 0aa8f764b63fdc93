"""Answers of the Responses API."""

from __future__ import annotations

from fuzz.answers import STREAM_WORDS, check_answer
from treadle.models.responses_model import ResponsesReader

__all__ = ["WORDS", "check"]

WORDS = (
    *STREAM_WORDS,
    *(b'{"type":"response.output_item.done","item":', b'{"type":"response.completed","response":'),
    *(b'{"type":"response.failed","response":', b'{"type":"error",', b'"response":{"id":"r"}'),
    *(b'{"type":"response.incomplete","response":', b'"incomplete_details":{"reason":"'),
    *(b'{"type":"codex.rate_limits","rate_limits":', b'"used_percent":', b'"output":['),
    *(
        b'"message"',
        b'"assistant"',
        b'"user"',
        b'"function_call"',
        b'"call_id":"',
        b'"output_text"',
    ),
)


def check(data: bytes) -> None:
    """It ends as an answer or as a failure, and everything in it is sound."""
    check_answer(ResponsesReader(), data)
