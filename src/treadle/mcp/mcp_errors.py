"""What can go wrong with a server, in words for people and models.

Owns the two kinds: a server that cannot be reached, and a call that it did not answer.
Invariant: every text names the server and says what happened on one line.
"""

from __future__ import annotations

from ..core.errors import TreadleError

__all__ = ["CallFailed", "ServerUnavailable"]


class ServerUnavailable(TreadleError):
    """A server could not be started or reached; nothing was sent to it."""

    def __init__(self, server: str, reason: str) -> None:
        self.server, self.reason = server, reason
        super().__init__(f"the MCP server {server!r} is not available: {reason}")


class CallFailed(TreadleError):
    """A server got a request and did not answer it as it should."""

    def __init__(self, server: str, reason: str) -> None:
        self.server, self.reason = server, reason
        super().__init__(f"the MCP server {server!r} {reason}")
