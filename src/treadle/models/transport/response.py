"""The reader's side of an answer.

Invariant: once it is left, the connection is either back in the pool or closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from .connection import HttpConnection
from .errors import BodyTooLarge, HttpProtocolError
from .exchange import Exchange
from .headers import Headers

__all__ = ["StreamedResponse"]


class StreamedResponse:
    """An answer over one connection of ours; see `Response` for the contract."""

    def __init__(self, connection: HttpConnection, exchange: Exchange) -> None:
        self._connection, self._exchange = connection, exchange

    def __repr__(self) -> str:
        return f"<StreamedResponse {self.status} from {self._exchange.origin}>"

    @property
    def status(self) -> int:
        """The final status."""
        return self._exchange.status

    @property
    def headers(self) -> Headers:
        """The answer's headers."""
        return self._exchange.headers

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives."""
        content = self.headers.get("content-encoding", "identity").lower()
        transfer = self.headers.get("transfer-encoding", "chunked").lower()
        if content != "identity" or transfer != "chunked":
            coding = transfer if content == "identity" else content
            raise HttpProtocolError(
                self._exchange.origin,
                f"the body is encoded as {coding!r} although we asked for plain bytes; "
                "turn compression off on the server or the proxy before it",
            )
        return self._exchange

    async def read(self, limit: int) -> bytes:
        """The rest of the body, whole."""
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) > limit:
                await self.close()
                raise BodyTooLarge(self._exchange.origin, limit, bytes(body[:limit]))
        return bytes(body)

    async def close(self) -> None:
        """Drop what is left of the answer."""
        self._connection.abandon(self._exchange)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
