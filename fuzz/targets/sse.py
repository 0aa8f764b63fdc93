"""Event streams: how they are cut into chunks never changes what is in them."""

from __future__ import annotations

from fuzz.cutting import chunks, head_and_rest
from treadle.models.sse import EventParser, EventTooLarge

__all__ = ["WORDS", "check"]

WORDS = (b"data: ", b"data:", b"event: ", b"\n\n", b"\r\n", b"\r", b": ", b"\xef\xbb\xbf", b"id:")
_LIMIT = 64


def check(data: bytes) -> None:
    """Whole or in pieces: the same events, none larger than the limit, or a refusal."""
    pattern, stream = head_and_rest(data, 4)
    pieces = _events(chunks(stream, pattern))
    whole = _events([stream])
    for events in (pieces, whole):
        assert events is None or all(len(event) <= _LIMIT for event in events)
    assert pieces == whole


def _events(parts: list[bytes]) -> list[bytes] | None:
    parser = EventParser(_LIMIT)
    try:
        return [event for part in parts for event in parser.feed(part)] + parser.finish()
    except EventTooLarge:
        return None
