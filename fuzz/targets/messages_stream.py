"""Answers of the Messages API."""

from __future__ import annotations

from fuzz.answers import STREAM_WORDS, check_answer
from fuzz.targets.chat_stream import TOOLS
from treadle.models.messages_model import MessagesReader

__all__ = ["WORDS", "check"]

WORDS = (
    *STREAM_WORDS,
    *(b'{"type":"message_start","message":{', b'{"type":"content_block_start","content_block":{'),
    *(b'{"type":"content_block_delta","delta":{', b'{"type":"content_block_stop"}'),
    *(b'{"type":"message_delta","delta":{"stop_reason":"', b'{"type":"message_stop"}'),
    *(b'"tool_use"', b'"thinking"', b'"redacted_thinking"', b'"text"', b'"signature":'),
    *(b'"text_delta"', b'"thinking_delta"', b'"signature_delta"', b'"input_json_delta"'),
    *(b'"partial_json":"', b'"patch"', b'"input_tokens":', b'"max_tokens"', b'"pause_turn"'),
)


def check(data: bytes) -> None:
    """It ends as an answer or as a failure, and everything in it is sound."""
    check_answer(MessagesReader(TOOLS), data)
