"""Redirects: where a browser comes back to after a login.

Owns one listening socket on the loopback interface. Invariant: only the redirect of the login
that was begun ends the wait; whoever else calls is refused, and the wait goes on.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

from ..core.errors import ConfigError
from ..core.redact import add_secrets, one_line
from ..policy.auth.credential import AuthError

__all__ = ["LoginRefused", "RedirectListener", "listen_for_redirect"]

_PATH = "/callback"
_LARGEST = 1 << 14
_DONE = b"You are logged in. You can close this page.\n"
_REFUSED = b"You were not logged in. You can close this page.\n"
_STRANGE = b"This is not the login that Treadle waits for.\n"


class LoginRefused(AuthError):
    """The authorization server, or the user there, did not let us in."""


class RedirectListener:
    """Waits for one redirect."""

    def __init__(self, show: Callable[[str], Awaitable[None]]) -> None:
        self._show = show
        self._state = ""
        self._came: asyncio.Future[AuthorizationCodeResult] = asyncio.Future()

    async def go(self, url: str) -> None:
        """Show the user where to log in."""
        self._state = _first(parse_qs(urlsplit(url).query), "state")
        await self._show(url)

    async def come_back(self) -> AuthorizationCodeResult:
        """Return what the redirect said. Raises `LoginRefused`."""
        return await self._came

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            status, told = self._take(head.split(b" ", 2)[1].decode("latin-1"))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError):
            status, told = 400, _STRANGE
        headers = f"content-type: text/plain\r\ncontent-length: {len(told)}\r\nconnection: close"
        writer.write(f"HTTP/1.1 {status} Login\r\n{headers}\r\n\r\n".encode() + told)
        try:
            await writer.drain()
        finally:
            writer.close()

    def _take(self, target: str) -> tuple[int, bytes]:
        parts = urlsplit(target)
        said = parse_qs(parts.query)
        state = _first(said, "state")
        right = bool(self._state) and hmac.compare_digest(state.encode(), self._state.encode())
        if parts.path != _PATH or not right or self._came.done():
            return 400, _STRANGE
        if code := _first(said, "code"):
            add_secrets(code)
            self._came.set_result(
                AuthorizationCodeResult(code=code, state=state, iss=_first(said, "iss") or None)
            )
            return 200, _DONE
        why = one_line(_first(said, "error_description") or _first(said, "error") or "no reason")
        self._came.set_exception(LoginRefused(f"the login was refused: {why}; try again"))
        return 200, _REFUSED


@asynccontextmanager
async def listen_for_redirect(
    show: Callable[[str], Awaitable[None]], port: int = 0
) -> AsyncIterator[tuple[RedirectListener, str]]:
    """Listen while a user logs in; yield the listener and the address to come back to."""
    listener = RedirectListener(show)
    try:
        server = await asyncio.start_server(listener.talk, "127.0.0.1", port, limit=_LARGEST)
    except OSError:
        raise ConfigError(
            f"port {port} is in use, and the login has to come back to it; end what uses it, or "
            "set another `oauth.callback_port`"
        ) from None
    try:
        bound = server.sockets[0].getsockname()[1]
        yield listener, f"http://127.0.0.1:{bound}{_PATH}"
    finally:
        server.close()


def _first(said: dict[str, list[str]], name: str) -> str:
    return said.get(name, [""])[0]
