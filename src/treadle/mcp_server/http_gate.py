"""The gate in front of the HTTP server: who may talk to it at all.

Owns the checks of a request's head. Invariant: nothing of a body is read before its sender has
named this server as its host, does not come from a foreign page, and has shown the token.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeAlias

from ..core.served_address import HttpRefusal, ServedNames

__all__ = ["App", "HttpGate"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


_NO_TOKEN = HttpRefusal(
    401, b"send the token of this server\n", ((b"www-authenticate", b"Bearer"),)
)


class HttpGate:
    """Lets through requests under one of `names`, from no page or one of theirs, with the token."""

    def __init__(self, app: App, token: str, names: ServedNames) -> None:
        self._app = app
        self._token = token.encode()
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] == "http":
            # The parser leaves the blanks around a value that HTTP allows and does not count.
            scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        if scope["type"] == "http" and (refusal := self._refusal(scope["headers"])):
            head = [(b"content-type", b"text/plain"), (b"connection", b"close"), *refusal.headers]
            start = {"type": "http.response.start", "status": refusal.status, "headers": head}
            await send(start)
            await send({"type": "http.response.body", "body": refusal.why})
            return
        await self._app(scope, receive, send)

    def _refusal(self, headers: Sequence[tuple[bytes, bytes]]) -> HttpRefusal | None:
        if refusal := self._names.refusal(headers):
            return refusal
        shown = [value for name, value in headers if name == b"authorization"]
        scheme, _, token = shown[0].partition(b" ") if len(shown) == 1 else (b"", b"", b"")
        right = hmac.compare_digest(token, self._token)
        return None if right and scheme.lower() == b"bearer" else _NO_TOKEN
