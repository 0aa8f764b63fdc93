"""The envelope of a message: JSON-RPC without its version member.

Owns the members of a line and what the codes of errors mean. Invariant: a line is one
JSON object, and nothing inside it is read here.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ...engines.words import brief
from .errors import Overloaded, RequestFailed, UnknownMethod
from .protocol.base import RequestId

__all__ = [
    "BAD_PARAMETERS",
    "INTERNAL",
    "NO_SUCH_METHOD",
    "OVERLOADED",
    "IncomingMessage",
    "OutgoingMessage",
    "RpcError",
    "decode_message",
    "encode_message",
    "request_error",
]

OVERLOADED = -32001
NO_SUCH_METHOD = -32601
BAD_PARAMETERS = -32602
INTERNAL = -32603


class RpcError(Struct):
    """An error in the place of a result."""

    code: int = 0
    message: str = ""


class IncomingMessage(Struct):
    """What came: a request, a notification or an answer, told apart by their members."""

    id: RequestId | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"{}")
    result: Raw | UnsetType = UNSET
    error: RpcError | UnsetType = UNSET


class OutgoingMessage(Struct):
    """What goes out."""

    id: RequestId | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: object = UNSET
    result: object = UNSET
    error: object = UNSET


decode_message = msgspec.json.Decoder(IncomingMessage).decode
_encode = msgspec.json.Encoder().encode


def encode_message(message: OutgoingMessage) -> bytes:
    """A message with the end of its line."""
    return _encode(message) + b"\n"


def request_error(method: str, failure: RpcError) -> RequestFailed:
    """The error that an answer to `method` stands for."""
    reason = brief(failure.message)
    if failure.code == OVERLOADED:
        return Overloaded(method, failure.code, reason)
    # The server lists what it knows instead of using the code that is meant for this.
    if failure.code == NO_SUCH_METHOD or f"unknown variant `{method}`" in failure.message:
        return UnknownMethod(method, failure.code, reason)
    return RequestFailed(method, failure.code, reason)
