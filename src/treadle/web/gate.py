"""The gate in front of the inspector: who may read, and who may act.

Owns the checks of every request before its route sees it, and the headers of every answer.
Invariants: no answer of the API reaches somebody who has not shown the token of this server;
nothing that acts is done for another page than ours; and no page of another origin can read
an answer, for nothing here allows it to.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

from ..core.served_address import HttpRefusal, ServedNames
from ..core.typed import decode_json
from .api_answers import TooLarge

__all__ = ["POLICY", "SESSION", "App", "Keys", "WebGate"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

SESSION = "/api/session"
_GUARDED = ("/api", "/metrics")
"""What only those see who show the token."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"x-frame-options", b"DENY"),
]
_LARGEST_BODY = 1 << 20
_LARGEST_TOKEN = 1 << 10


class Keys(Struct, frozen=True):
    """What opens one server while it runs: the token in its link, and the cookie for it."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def cookie(self) -> str:
        """The name of the cookie; cookies of one host are shared by its ports."""
        return f"treadle-{self.port}"

    def opened_by(self, headers: Headers) -> bool:
        """Return whether a request shows the cookie, or the token as a bearer's."""
        shown = [value for name, value in headers if name == b"authorization"]
        scheme, _, token = shown[0].partition(b" ") if len(shown) == 1 else (b"", b"", b"")
        bearer = hmac.compare_digest(token, self.token.encode())
        session = hmac.compare_digest(_cookie(headers, self.cookie), self.session.encode())
        return session or (bearer and scheme.lower() == b"bearer")


class _Login(Struct, frozen=True):
    token: str


class WebGate:
    """Lets requests through to `app`, and gives the cookie for the token."""

    def __init__(self, app: App, keys: Keys, names: ServedNames, *, policy: str = POLICY) -> None:
        self._app, self._keys, self._names = app, keys, names
        self._headers = [*_HEADERS, (b"content-security-policy", policy.encode())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send, self._headers)
        if refusal := self._refusal(scope):
            await answer.refuse(refusal)
            return
        most = _LARGEST_TOKEN if scope["path"] == SESSION else _LARGEST_BODY
        bounded = _limit_body(receive, most)
        try:
            if scope["path"] == SESSION:
                await self._log_in(bounded, answer)
            else:
                await self._app(scope, bounded, answer)
        except TooLarge:
            if not answer.begun:
                await answer.refuse(_refuse(413, "too_large", f"at most {most:,} bytes, please"))

    def _refusal(self, scope: Scope) -> HttpRefusal | None:
        headers, method, path = scope["headers"], scope["method"], scope["path"]
        if refusal := self._names.refusal(headers):
            return refusal
        if method not in {"GET", "HEAD", "POST"} or (path == SESSION and method != "POST"):
            return _refuse(405, "wrong_method", f"{method} is not known here; use GET or POST")
        if method == "POST" and (refusal := _not_our_page(headers, path)):
            return refusal
        if path == SESSION or not path.startswith(_GUARDED):
            return None
        if not self._keys.opened_by(headers):
            return _refuse(401, "no_token", "open the link that `treadle web` printed")
        return None

    async def _log_in(self, receive: Receive, answer: _Answer) -> None:
        try:
            shown = decode_json(await _body(receive), _Login).token
        except (msgspec.MsgspecError, UnicodeDecodeError):
            await answer.refuse(_refuse(400, "bad_request", 'send {"token": "…"}'))
            return
        if not hmac.compare_digest(shown.encode(errors="replace"), self._keys.token.encode()):
            why = "this is not the token of this server; open the link that it printed"
            await answer.refuse(_refuse(403, "wrong_token", why))
            return
        cookie = f"{self._keys.cookie}={self._keys.session}; Path=/; HttpOnly; SameSite=Strict"
        await answer.say(204, [(b"set-cookie", cookie.encode())], b"")


class _Answer:
    """Sends an answer, with our headers in it."""

    def __init__(self, send: Send, headers: Headers) -> None:
        self._send, self._headers = send, headers
        self.begun = False

    async def __call__(self, message: Message) -> None:
        """Pass a message of the application on."""
        if message["type"] == "http.response.start":
            self.begun = True
            given = list(message.get("headers", ()))
            own = {name.lower() for name, _ in given}
            stored = [] if b"cache-control" in own else [(b"cache-control", b"no-store")]
            ours = [each for each in self._headers if each[0] not in own]
            message = {**message, "headers": [*given, *ours, *stored]}
        await self._send(message)

    async def say(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer."""
        length = (b"content-length", str(len(body)).encode())
        head = headers if status == 204 else [*headers, length]
        await self({"type": "http.response.start", "status": status, "headers": head})
        await self({"type": "http.response.body", "body": body})

    async def refuse(self, refusal: HttpRefusal) -> None:
        """Say why a request is not served, and end the connection: its body was not read."""
        kind = b"application/json" if refusal.why.startswith(b"{") else b"text/plain"
        head = [(b"content-type", kind), (b"connection", b"close"), *refusal.headers]
        await self.say(refusal.status, head, refusal.why)


def _refuse(status: int, code: str, message: str) -> HttpRefusal:
    return HttpRefusal(status, msgspec.json.encode({"error": {"code": code, "message": message}}))


def _not_our_page(headers: Iterable[tuple[bytes, bytes]], path: str) -> HttpRefusal | None:
    """Refuse what acts, unless our own page or a program asks for it.

    A page elsewhere can send no such header and no JSON without asking us first, and we answer
    no such question.
    """
    given = dict(headers)
    if given.get(b"sec-fetch-site", b"same-origin") != b"same-origin":
        return _refuse(403, "foreign_page", "pages of other sites may not act here")
    if given.get(b"content-type", b"").split(b";")[0].strip().lower() != b"application/json":
        return _refuse(415, "no_json", "send JSON, with `Content-Type: application/json`")
    if path != SESSION and given.get(b"x-treadle") != b"1":
        return _refuse(403, "no_header", "send the header `X-Treadle: 1` with what acts")
    return None


def _cookie(headers: Headers, name: str) -> bytes:
    """Return the value of a cookie; nothing where there is none, or several."""
    found = []
    for header, value in headers:
        if header == b"cookie":
            try:
                cookies = SimpleCookie(value.decode("latin-1"))
            except CookieError:
                continue
            found += [cookies[name].value] if name in cookies else []
    return found[0].encode("latin-1") if len(found) == 1 else b""


def _limit_body(receive: Receive, most: int) -> Receive:
    """Return `receive`, which raises when more than `most` bytes come."""
    read = 0

    async def receive_within_limit() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > most:
            raise TooLarge(f"a body has more than {most:,} bytes; send less")
        return message

    return receive_within_limit


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            return b"".join(parts)
