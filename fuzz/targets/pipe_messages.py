"""Messages of an executor at the other end of a pipe."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from treadle.core.wire import UNREADABLE
from treadle.tools.pipe.protocol import decode_reply, decode_request, encode, remote_error

__all__ = ["WORDS", "check"]

WORDS = (
    *(
        b"\x82\xa6number\x00",
        b"\xa9operation",
        b"\xa4type",
        b"\xa6output",
        b"\xa5start",
        b"\xa4kill",
    ),
    *(b"\xa7failure", b"\xa4kind", b"\xa4text", b"\xa4path", b"\xa4code", b"\xa7OSError", b"\xc0"),
    *(b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xcf", b"\x00"),
    *(b"\xa5value", b"\xac\x49nvalidPatch", b"\xa4read", b"\xa6bounds", b"\xa5apply"),
)


def check(data: bytes) -> None:
    """A message or a refusal to read it; what is said of a failure is the same again."""
    with suppress(*UNREADABLE):
        encode(decode_request(data))
    with suppress(*UNREADABLE):
        reply = decode_reply(data)
        with suppress(msgspec.MsgspecError, OverflowError, NotImplementedError):
            encode(reply)
        if reply.failure is not None:
            again = remote_error(reply.failure.exception())
            assert type(again.exception()) is type(reply.failure.exception())
