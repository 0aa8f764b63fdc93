"""HTTP answers: how they are cut into reads never changes what they say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fuzz.cutting import chunks, head_and_rest
from treadle.core.stream import header_signals
from treadle.core.wire import json_bytes
from treadle.models.provider_errors import error_for_status
from treadle.models.transport.errors import TransportError
from treadle.models.transport.exchange import Exchange

__all__ = ["WORDS", "check"]

WORDS = (
    *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 429 X\r\n", b"\r\n\r\n"),
    *(b"content-length: ", b"transfer-encoding: chunked\r\n", b"connection: close\r\n", b"\r\n"),
    *(
        b"0\r\n\r\n",
        b"ffffffffffffffff\r\n",
        b"5\r\nhello\r\n",
        b"5;x=y\r\n",
        b": ",
        b"upgrade: h2c",
    ),
    *(b"retry-after: ", b"retry-after-ms: ", b"date: ", b"Mon, 01 Jan 0001 00:00:00 GMT\r\n"),
    *(b"Fri, 31 Dec 9999 23:59:59 -2359\r\n", b"x-codex-primary-used-percent: ", b"1e308", b"nan"),
    *(b"x-codex-primary-reset-at: ", b"x-codex-primary-window-minutes: ", b"openai-model: "),
)


def check(data: bytes) -> None:
    """Whole or in pieces: the same head and body, then the end or a typed failure."""
    pattern, stream = head_and_rest(data, 2)
    whole, pieces = _heard([stream]), _heard(chunks(stream, pattern))
    assert whole == pieces, (whole, pieces)


def _heard(parts: Iterable[bytes]) -> tuple[int, bytes, str]:
    """The status, the body, and the kind of failure that ended it."""
    exchange = Exchange("http://test", on_wait=lambda: None, tunnel=False)
    for part in parts:
        exchange.feed(part)
        if exchange.complete or exchange.error is not None:
            break
    exchange.end()
    body, failure = b"", ""
    try:
        body = b"".join(_taken(exchange))
    except TransportError as error:
        failure = type(error).__name__
    if exchange.answered:
        json_bytes(header_signals(exchange.headers))
        str(error_for_status(exchange.status, exchange.headers, body))
        repr(exchange.headers)
    return exchange.status, body, failure


def _taken(exchange: Exchange) -> Iterator[bytes]:
    """What there is to be read; nothing of it has to be waited for any more."""
    while True:
        try:
            exchange.__anext__().send(None)
        except StopIteration as given:
            yield given.value
        except StopAsyncIteration:
            return
