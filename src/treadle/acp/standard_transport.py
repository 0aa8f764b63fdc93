"""The transport: messages of JSON-RPC, one on each line of our standard streams.

Owns framing. Invariants: standard output carries messages and nothing else; a line that is no
message is answered with an error and ends nothing. What the package does not route yet is
renamed to what it does: the deletion of a session, and the cancellation of a prompt by its
request.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from ..core.own_streams import OwnStreams

__all__ = ["DELETE_SESSION", "LONGEST_LINE", "StandardTransport"]

LONGEST_LINE = 48 << 20
"""Bytes of the largest message: prompts have images in them."""

DELETE_SESSION = "treadle/session_delete"
"""The extension by which the agent hears of ``session/delete``."""
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600


class StandardTransport:
    """A `Transport` of the package over the streams that we took."""

    def __init__(self, streams: OwnStreams) -> None:
        self._streams = streams
        self._lines: AsyncGenerator[bytes, None] = streams.lines(LONGEST_LINE)
        self._prompts: dict[Any, Any] = {}
        """The sessions of the prompts that are not answered yet, by request."""

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message."""
        if "method" not in message:
            self._prompts.pop(message.get("id"), None)
        await self._streams.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None at the end of the input."""
        async for line in self._lines:
            if len(line) > LONGEST_LINE:
                text = f"the message has more than {LONGEST_LINE:,} bytes"
                await self._refuse(_INVALID_REQUEST, text)
            elif line.strip():
                message = _parse(line)
                if message is not None:
                    return self._route(message)
                await self._refuse(_PARSE_ERROR, "the line is not a message of JSON-RPC 2.0")
        return None

    async def close(self) -> None:
        """Read no more."""
        await self._lines.aclose()

    def _route(self, message: dict[str, Any]) -> dict[str, Any]:
        params = message.get("params")
        given = params if isinstance(params, dict) else {}
        match message.get("method"):
            case "session/prompt" if isinstance(message.get("id"), str | int):
                self._prompts[message["id"]] = given.get("sessionId")
            case "session/delete":
                return {**message, "method": f"_{DELETE_SESSION}"}
            case "$/cancel_request" if isinstance(number := given.get("requestId"), str | int):
                session = {"sessionId": self._prompts.get(number, "")}
                return {**message, "method": "session/cancel", "params": session}
        return message

    async def _refuse(self, code: int, text: str) -> None:
        error = {"code": code, "message": text}
        await self.send({"jsonrpc": "2.0", "id": None, "error": error})


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("method", ""), str):
        return None
    return message
