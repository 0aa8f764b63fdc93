"""HTTP for model adapters: the `Transport` seam and the client behind it."""

from __future__ import annotations

from .client import AsyncTransport
from .contract import DEFAULT_TIMEOUTS, Response, Timeouts, Transport
from .errors import (
    BodyTooLarge,
    ConnectionClosed,
    ConnectRefused,
    HttpProtocolError,
    NameNotFound,
    NoConnection,
    PrivateAddress,
    ProxyRefused,
    Redirected,
    RequestRefused,
    TimedOut,
    TlsFailed,
    TransportClosed,
    TransportError,
)
from .headers import Headers
from .proxies import Proxies
from .trust import TlsTrust

__all__ = [
    "DEFAULT_TIMEOUTS",
    "AsyncTransport",
    "BodyTooLarge",
    "ConnectRefused",
    "ConnectionClosed",
    "Headers",
    "HttpProtocolError",
    "NameNotFound",
    "NoConnection",
    "PrivateAddress",
    "Proxies",
    "ProxyRefused",
    "Redirected",
    "RequestRefused",
    "Response",
    "TimedOut",
    "Timeouts",
    "TlsFailed",
    "TlsTrust",
    "Transport",
    "TransportClosed",
    "TransportError",
]
