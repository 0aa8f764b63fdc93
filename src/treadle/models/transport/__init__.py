"""HTTP for model adapters: the `Transport` seam and the client behind it."""

from __future__ import annotations

from .client import AsyncTransport
from .contract import PATIENT, Response, Timeouts, Transport
from .errors import (
    BodyTooLarge,
    ConnectionClosed,
    ConnectRefused,
    NameNotFound,
    NoConnection,
    PrivateAddress,
    ProtocolError,
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
from .trust import Trust

__all__ = [
    "PATIENT",
    "AsyncTransport",
    "BodyTooLarge",
    "ConnectRefused",
    "ConnectionClosed",
    "Headers",
    "NameNotFound",
    "NoConnection",
    "PrivateAddress",
    "ProtocolError",
    "Proxies",
    "ProxyRefused",
    "Redirected",
    "RequestRefused",
    "Response",
    "TimedOut",
    "Timeouts",
    "TlsFailed",
    "Transport",
    "TransportClosed",
    "TransportError",
    "Trust",
]
