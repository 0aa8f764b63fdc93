"""Errors between a request and the end of its response.

TransportError             `.retryable`, `.origin`; the system's own error is its `__cause__`
├── RequestRefused         the URL or a header cannot be sent as it is; nothing was sent
├── NoConnection           no connection could be opened
│   ├── NameNotFound       the host's name has no address
│   ├── PrivateAddress     it is one of this machine or its networks, and must not be
│   ├── ConnectRefused     no server listens there
│   ├── TlsFailed          the certificate or the handshake
│   └── ProxyRefused       the proxy would not connect us; `.status`
├── TimedOut               `.phase`: connect, idle or total
├── ConnectionClosed       the server closed the connection too early; `.answered`
├── HttpProtocolError      what came is no HTTP/1.1 that we accept
├── Redirected             `.status`, `.location`; redirects are not followed
├── BodyTooLarge           `.limit`, `.start`
└── TransportClosed        used after `close`

Texts name the origin only: never a path, a query, a header or a credential.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from ...core.errors import TreadleError

__all__ = [
    "BodyTooLarge",
    "ConnectRefused",
    "ConnectionClosed",
    "HttpProtocolError",
    "NameNotFound",
    "NoConnection",
    "Phase",
    "PrivateAddress",
    "ProxyRefused",
    "Redirected",
    "RequestRefused",
    "TimedOut",
    "TlsFailed",
    "TransportClosed",
    "TransportError",
]

Phase: TypeAlias = Literal["connect", "idle", "total"]

_ADVICE: dict[Phase, str] = {
    "connect": "no connection after {}; check the network and the proxy settings",
    "idle": "silent for {}; try again, or allow a longer silence",
    "total": "not finished after {}; try again, or allow more time",
}


class TransportError(TreadleError):
    """Base of every error between a request and the end of its response."""

    retryable = False
    """Whether the same request may succeed a little later."""

    def __init__(self, origin: str, text: str) -> None:
        self.origin = origin
        super().__init__(f"{origin}: {text}" if origin else text)


class RequestRefused(TransportError):
    """The request cannot be sent as it is; nothing was sent."""


class NoConnection(TransportError):
    """No connection to the server or the proxy could be opened."""

    retryable = True


class NameNotFound(NoConnection):
    """The host's name has no address."""

    def __init__(self, origin: str, host: str, *, temporary: bool) -> None:
        self.host, self.retryable = host, temporary
        super().__init__(origin, f"no address for {host!r}; check the name and the network")


class PrivateAddress(NoConnection):
    """The host's name leads to this machine or into its networks."""

    retryable = False

    def __init__(self, origin: str, host: str) -> None:
        self.host = host
        super().__init__(
            origin, f"{host!r} leads into a private network; allow that, or correct the name"
        )


class ConnectRefused(NoConnection):
    """The machine is there, but no server listens on that port.

    On this machine it is not about to come back by itself: to ask again is no use.
    """

    def __init__(self, origin: str, host: str, *, here: bool) -> None:
        self.retryable = not here
        remedy = "start it, or check the port" if here else "check host and port"
        super().__init__(origin, f"no server listens on {host!r}; {remedy}")


class TlsFailed(NoConnection):
    """The certificate is not trusted, or the handshake failed."""

    retryable = False


class ProxyRefused(NoConnection):
    """The proxy would not connect us."""

    def __init__(self, origin: str, proxy: str, status: int) -> None:
        self.proxy, self.status = proxy, status
        self.retryable = status >= 500
        remedy = (
            "put the proxy's user and password into its URL"
            if status == 407
            else "ask the owner of the proxy, or name the host in NO_PROXY"
        )
        super().__init__(origin, f"the proxy {proxy!r} refused with status {status}; {remedy}")


class TimedOut(TransportError):
    """The other side was silent for too long, or the whole took too long."""

    retryable = True

    def __init__(self, origin: str, phase: Phase, seconds: float) -> None:
        self.phase, self.seconds = phase, seconds
        super().__init__(origin, _ADVICE[phase].format(f"{seconds:g} s"))


class ConnectionClosed(TransportError):
    """The server closed the connection before the response was complete."""

    retryable = True

    def __init__(self, origin: str, *, answered: bool) -> None:
        self.answered = answered
        when = "in the middle of its answer" if answered else "before it answered"
        super().__init__(origin, f"the server closed the connection {when}; try again")


class HttpProtocolError(TransportError):
    """What came is no HTTP/1.1 response that we accept."""

    def __init__(self, origin: str, text: str, *, retryable: bool = False) -> None:
        self.retryable = retryable
        super().__init__(origin, text)


class Redirected(TransportError):
    """The server redirects to another place; we do not send credentials there."""

    def __init__(self, origin: str, status: int, location: str) -> None:
        self.status, self.location = status, location
        super().__init__(
            origin,
            f"answered {status} and points to {location!r}; redirects are not followed, "
            "set the base URL to where the server is",
        )


class BodyTooLarge(TransportError):
    """The body is larger than the caller's limit; `start` is what fits."""

    def __init__(self, origin: str, limit: int, start: bytes) -> None:
        self.limit, self.start = limit, start
        super().__init__(origin, f"the answer is larger than {limit} bytes; read it in chunks")


class TransportClosed(TransportError):
    """The transport, or the response, was used after it was closed."""

    def __init__(self, origin: str) -> None:
        super().__init__(origin, "closed on this side; open a transport, or ask again")
