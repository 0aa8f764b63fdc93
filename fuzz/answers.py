"""What every reader of a model's answer owes, whatever the provider sends.

Invariant: an answer ends as complete or with a typed failure, and all that was handed out
on the way can be read, written again and summed up.
"""

from __future__ import annotations

from treadle.core.items import encode_item, item_type
from treadle.core.stream import OutputItemDone, RateLimitsEvent, ResponseCompleted, ResponseFailed
from treadle.core.usage import MOST_TOKENS
from treadle.core.wire import json_bytes
from treadle.models.contract import ModelError, ModelEvent, StreamCut
from treadle.models.endpoint import AnswerReader
from treadle.models.item_checks import MOST_ITEMS, is_readable

__all__ = ["STREAM_WORDS", "check_answer"]

STREAM_WORDS = (
    *(b'"type":"', b'"index":', b'"id":"', b'"usage":{', b'"error":{', b'"code":"', b'"message":'),
    *(b'"content":', b"[", b"]", b"{", b"}", b'"', b",", b":", b"\n", b"null", b"true", b"-1"),
    *(b"1e999", b"9223372036854775808", b"\\u0000", b"\\ud83d", b"\\ude00", b"\xff", b"\xc2\xb7"),
    *(b'"name":"', b'"arguments":"', b'"input":"', b'"text":"', b'"role":"', b'"delta":'),
)
"""What answers of every API are made of."""

_CUT = StreamCut("cut")


def check_answer(reader: AnswerReader, data: bytes) -> None:
    """Let `reader` read `data`: one document behind a NUL, else one event a line."""
    seen: list[ModelEvent] = []
    if data.startswith(b"\0"):
        reader.read_document(data[1:])
        seen += reader.events
    else:
        for payload in data.split(b"\n"):
            reader.read(payload)
            seen += reader.events
            reader.events = []
            if reader.complete or reader.failure is not None:
                break
        else:
            reader.end(_CUT)
            seen += reader.events
    assert reader.complete or isinstance(reader.failure, ModelError)
    assert len(str(reader.failure)) < 2000
    assert sum(isinstance(event, OutputItemDone) for event in seen) <= MOST_ITEMS
    for event in seen:
        _check_event(event)


def _check_event(event: ModelEvent) -> None:
    match event:
        case OutputItemDone():
            assert is_readable(event.body)
            assert is_readable(encode_item(event.item))
            item_type(event.item)
        case ResponseCompleted():
            usage = event.usage
            assert usage is None or 0 <= usage.total_tokens <= MOST_TOKENS
            json_bytes(usage)
        case ResponseFailed():
            str((event.code, event.message, event.retry_after))
        case RateLimitsEvent():
            json_bytes(event.snapshot)
