"""Errors of providers: every body and header has one meaning."""

from __future__ import annotations

import math

from fuzz.cutting import head_and_rest
from treadle.models.contract import ModelError
from treadle.models.provider_errors import error_for_status, error_in_stream, parse_error_body

__all__ = ["WORDS", "check"]

WORDS = (
    *(
        b'{"error":{',
        b'"message":"',
        b'"code":"',
        b'"type":"',
        b'"detail":',
        b'"resets_in_seconds":',
    ),
    *(b"context_length_exceeded", b"rate_limit_exceeded", b"usage_limit_reached", b"try again in "),
    *(b"9" * 320, b"1e308", b"20ms", b"\xff", b"\\ud800", b"null", b"[", b"}}", b'"', b",", b"nan"),
)


def check(data: bytes) -> None:
    """A typed failure of bounded length, with a wait that someone can wait for, or none."""
    (low, high), rest = head_and_rest(data, 2)
    wish, _, body = rest.partition(b"\n")
    headers = {"retry-after": wish.decode("latin-1"), "retry-after-ms": wish.decode("latin-1")}
    for failure in (
        error_for_status(400 + (low | high << 8) % 200, headers, body),
        error_in_stream(parse_error_body(body)),
    ):
        assert isinstance(failure, ModelError)
        assert len(str(failure)) < 2000
        assert failure.retry_after is None or 0 <= failure.retry_after < math.inf
