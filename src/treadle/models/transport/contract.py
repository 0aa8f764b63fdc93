"""The contract between a model adapter and the network.

Owns `Transport`, `Response` and `Headers`, all that an adapter may know about HTTP.
Invariants: the bytes of a body pass through as they arrive; nothing here looks at lines,
events or JSON. A `repr` shows no header that may hold a secret.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Protocol, Self

from msgspec import Struct

__all__ = ["DEFAULT_TIMEOUTS", "Headers", "Response", "Timeouts", "Transport"]

_SECRET = r"(?i)auth|cookie|key|token|secret|credential|signature"  # noqa: S105 - a pattern


class Timeouts(Struct, frozen=True, kw_only=True):
    """How long to wait, in seconds. None waits for ever.

    `connect` covers name, TCP, proxy and TLS. `idle` is the longest silence while we
    wait for the other side; the time that a slow consumer takes does not count. `total`
    is the time until the last byte.
    """

    connect: float | None = 15.0
    idle: float | None = 300.0
    total: float | None = None


DEFAULT_TIMEOUTS = Timeouts()


class Headers(dict[str, str]):
    """Received header fields: names in lower case, repeated ones joined with a comma."""

    __slots__ = ()

    @classmethod
    def from_fields(cls, fields: Iterable[tuple[str, str]]) -> Self:
        """Return the headers of a response, whose names may have any case."""
        headers = cls()
        for field, value in fields:
            name = field.lower()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return headers

    def __repr__(self) -> str:
        shown = {name: "…" if re.search(_SECRET, name) else self[name] for name in self}
        return f"Headers({shown!r})"


class Response(Protocol):
    """A response whose head has arrived; use it in an `async with` block.

    Leaving the block before the end of the body closes the connection. Leaving it after the
    end, or reading to the end, gives the connection back for the next request.
    """

    @property
    def status(self) -> int:
        """The final status; 1xx responses are never seen."""

    @property
    def headers(self) -> Headers:
        """The headers of the response."""

    def chunks(self) -> AsyncIterator[bytes]:
        """Return the body as it arrives, in pieces that are never empty; read it once.

        Everything that came before an error is given before the error is raised.
        """

    async def read(self, limit: int) -> bytes:
        """Return the rest of the body; raises `BodyTooLarge` past `limit` bytes."""

    async def close(self) -> None:
        """Drop the rest of the response; may be called twice."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Transport(Protocol):
    """Sends requests and returns responses.

    Any status but a redirect is a response, not an error. Every failure is a
    `TransportError`; cancellation closes the connection and is passed on. A request is sent
    again only if a kept connection turned out to be dead before any byte of the response came.
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
        """POST `body`; return when the head of the response is there.

        With `public` it is sent only to a host all of whose addresses lie outside this
        machine and its networks, and to the very address that was checked.
        """

    async def get(
        self, url: str, headers: Mapping[str, str], *, timeouts: Timeouts = DEFAULT_TIMEOUTS
    ) -> Response:
        """GET `url`; return when the head of the response is there."""

    async def close(self) -> None:
        """Close every connection, busy ones too; may be called twice."""
