"""HTTP for model adapters: the `Transport` contract and the client that implements it."""

from __future__ import annotations

from .address import Proxies
from .client import AsyncTransport
from .contract import DEFAULT_TIMEOUTS, Headers, Response, Timeouts, Transport
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
from .tls import TlsTrust

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
