"""The seam between a model adapter and the network.

Owns `Transport` and `Response`, all that an adapter may know about HTTP.
Invariant: the bytes of a body pass through as they arrive; nothing here looks
at lines, events or JSON.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Protocol, Self

from msgspec import Struct

from .headers import Headers

__all__ = ["DEFAULT_TIMEOUTS", "Response", "Timeouts", "Transport"]


class Timeouts(Struct, frozen=True, kw_only=True):
    """How long to wait, in seconds. None waits for ever.

    `connect` covers name, TCP, proxy and TLS. `idle` is the longest silence while we
    wait for the other side; a consumer that takes its time does not count. `total`
    is the whole of it, until the last byte has come.
    """

    connect: float | None = 15.0
    idle: float | None = 300.0
    total: float | None = None


DEFAULT_TIMEOUTS = Timeouts()


class Response(Protocol):
    """An answer whose head has arrived. Leave its `async with` block to be rid of it.

    Leaving before the body's end closes the connection. Leaving after it, or reading
    it to the end, gives the connection back for the next request.
    """

    @property
    def status(self) -> int:
        """The final status; 1xx answers are never seen."""

    @property
    def headers(self) -> Headers:
        """The answer's headers."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, in pieces that are never empty; read it once.

        Everything that came before a failure is given before the failure is raised.
        """

    async def read(self, limit: int) -> bytes:
        """The rest of the body, whole; raises `BodyTooLarge` past `limit` bytes."""

    async def close(self) -> None:
        """Drop what is left of the answer; may be called twice."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Transport(Protocol):
    """Sends requests and hands out answers.

    Any status but a redirect is an answer, not an error. Every failure is a
    `TransportError`; cancellation closes the connection and is passed on. A request
    is sent again only when a kept connection turned out dead before any of the answer came.
    """

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        public: bool = False,
    ) -> Response:
        """POST `body`; returns when the head of the answer is there.

        With `public` it is sent only to a host all of whose addresses lie outside this
        machine and its networks, and to the very address that was looked at.
        """

    async def get(
        self, url: str, headers: Mapping[str, str], *, timeouts: Timeouts = DEFAULT_TIMEOUTS
    ) -> Response:
        """GET `url`; returns when the head of the answer is there."""

    async def close(self) -> None:
        """Close every connection, busy ones too; may be called twice."""
