"""Answers of the Chat Completions API."""

from __future__ import annotations

from msgspec import Raw

from fuzz.answers import STREAM_WORDS, check_answer
from treadle.models.chat_model import ChatReader
from treadle.models.formats.function_calls import FlatTool

__all__ = ["TOOLS", "WORDS", "check"]

WORDS = (
    *STREAM_WORDS,
    *(b"[DONE]", b'{"id":"c","choices":[{"delta":{', b'"finish_reason":"stop"', b'"tool_calls":['),
    *(b'"function":{', b'"patch"', b'"look"', b'"reasoning_content":', b'"prompt_tokens":'),
    *(b'"length"', b'"content_filter"', b'"tool_calls"', b'"object":"error"', b'{\\"input\\":\\"'),
)
TOOLS = {
    "look": FlatTool(name="look", tool="look", description="", parameters=Raw(b"{}")),
    "patch": FlatTool(
        name="patch", tool="patch", description="", parameters=Raw(b"{}"), freeform=True
    ),
}


def check(data: bytes) -> None:
    """It ends as an answer or as a failure, and everything in it is sound."""
    check_answer(ChatReader(TOOLS, "digest"), data)
