"""Messages on their way in: lists are mended before the SDK reads them.

Owns what is taken out of an answer. Invariant: a message that needs no mending is passed on as
it is; one malformed tool never costs the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from .tool_list import usable_entries

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

__all__ = ["mend", "mend_streams"]


def mend(message: Any) -> Any:
    """Take the entries out of a list of tools that nobody could read."""
    result = getattr(message, "result", None)
    if isinstance(result, dict) and isinstance(result.get("tools"), list):
        result["tools"] = usable_entries(result["tools"])
    return message


def mend_streams(streams: TransportStreams) -> TransportStreams:
    """Return streams whose messages are mended as they are read."""
    incoming, outgoing = streams
    return _MendedStream(incoming), outgoing


class _MendedStream:
    """A stream of messages, each mended when it is received."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        return _mend_inner(await self._stream.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return _mend_inner(await self._stream.__anext__())

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *details: object) -> Any:
        return await self._stream.__aexit__(*details)


def _mend_inner(message: Any) -> Any:
    mend(getattr(message, "message", None))
    return message
