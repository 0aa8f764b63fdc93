"""An authorization server and a resource server that follow the RFCs, and their faults.

RFC 9728 (metadata of the resource), 8414 and OpenID discovery (of the authorization server), 7591
(registration), 7636 (PKCE), 8707 (resource indicators), 9207 (issuer), 6749 (codes, refreshing).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

__all__ = ["Faults", "LoginPlace", "browse", "login_place"]


@dataclass
class Faults:
    """How the servers break the rules."""

    pkce: tuple[str, ...] | None = ("S256",)
    """What the metadata says of PKCE."""
    issuer: str = ""
    """Another issuer in the metadata."""
    redirect_issuer: str | None = ""
    """Another issuer in the redirect; None: none at all."""
    resource: str = ""
    """Another resource in the metadata of the resource."""
    audience: str = ""
    """Another resource in the tokens."""
    registers: bool = True
    documents: bool = False
    """Whether it takes the address of a document as a client's id."""
    oidc_only: bool = False
    """Whether its metadata is found as OpenID Connect has it."""
    denies: bool = False
    lasts: int | None = 3600
    token_error: bool = False
    open_to: tuple[str, ...] = ()
    """The methods for which the resource asks nobody for a token."""
    published: bool = True
    """Whether the resource says who lets people in."""


@dataclass
class Grant:
    """What a code or a token stands for."""

    client: str
    challenge: str = ""
    redirect: str = ""
    resource: str = ""
    scope: str = ""


@dataclass
class LoginPlace:
    """Both servers, which have one address."""

    url: str
    faults: Faults = field(default_factory=Faults)
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)
    codes: dict[str, Grant] = field(default_factory=dict)
    access: dict[str, Grant] = field(default_factory=dict)
    refresh: dict[str, Grant] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)
    """Every request for a login."""
    exchanged: list[dict[str, str]] = field(default_factory=list)
    """Every request to the token endpoint."""
    needed: str = "read"
    """The scopes that the resource needs."""
    served: int = 0

    @property
    def issuer(self) -> str:
        return f"{self.url}/as"

    @property
    def resource(self) -> str:
        return f"{self.url}/mcp"

    def app(self) -> Starlette:
        well_known = "/.well-known"
        routes = [
            Route("/mcp", self.serve, methods=["POST"]),
            Route(f"{well_known}/oauth-protected-resource/mcp", self.resource_metadata),
            Route(f"{well_known}/oauth-authorization-server/as", self.metadata),
            Route(f"{well_known}/openid-configuration/as", self.oidc_metadata),
            Route("/as/authorize", self.authorize),
            Route("/as/token", self.token, methods=["POST"]),
            Route("/as/register", self.register, methods=["POST"]),
        ]
        return Starlette(routes=routes)

    async def serve(self, request: Request) -> Response:
        """The resource: who has a token that is for it, with the scopes that it needs."""
        if (await request.json())["method"] not in self.faults.open_to:
            metadata = f"{self.url}/.well-known/oauth-protected-resource/mcp"
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            grant = self.access.get(token) if scheme == "Bearer" else None
            if grant is None or grant.resource != self.resource:
                asks = f'Bearer resource_metadata="{metadata}", scope="read"'
                return Response(status_code=401, headers={"www-authenticate": asks})
            if missing := set(self.needed.split()) - set(grant.scope.split()):
                told = f'scope="{" ".join(sorted(missing))}", resource_metadata="{metadata}"'
                asks = f'Bearer error="insufficient_scope", {told}'
                return Response(status_code=403, headers={"www-authenticate": asks})
        self.served += 1
        return JSONResponse({"jsonrpc": "2.0", "id": 1, "result": {}})

    async def resource_metadata(self, _: Request) -> Response:
        if not self.faults.published:
            return Response(status_code=404)
        resource = self.faults.resource or self.resource
        told = {"resource": resource, "authorization_servers": [self.issuer]}
        return JSONResponse({**told, "scopes_supported": ["read"]})

    async def metadata(self, _: Request) -> Response:
        return Response(status_code=404) if self.faults.oidc_only else self._metadata()

    async def oidc_metadata(self, _: Request) -> Response:
        return self._metadata()

    def _metadata(self) -> Response:
        told: dict[str, Any] = {
            "issuer": self.faults.issuer or self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self.faults.documents,
        }
        if self.faults.pkce is not None:
            told["code_challenge_methods_supported"] = list(self.faults.pkce)
        if self.faults.registers:
            told["registration_endpoint"] = f"{self.issuer}/register"
        return JSONResponse(told)

    async def register(self, request: Request) -> Response:
        if not self.faults.registers:
            return Response(status_code=404)
        client = {**await request.json(), "client_id": f"client-{len(self.clients)}"}
        self.clients[client["client_id"]] = client
        return JSONResponse(client, status_code=201)

    async def authorize(self, request: Request) -> Response:
        """The page for logins; the user says yes at once."""
        asked = dict(request.query_params)
        self.asked.append(asked)
        client = self.clients.get(asked["client_id"], {})
        if not client and not (self.faults.documents and asked["client_id"].startswith("https:")):
            return Response("unknown client", status_code=400)
        if client.get("redirect_uris") and asked["redirect_uri"] not in client["redirect_uris"]:
            return Response("wrong redirect", status_code=400)
        issuer = self.faults.redirect_issuer
        back = {"state": asked["state"]}
        back |= {} if issuer is None else {"iss": issuer or self.issuer}
        if self.faults.denies:
            back |= {"error": "access_denied", "error_description": "not today"}
        else:
            code = secrets.token_urlsafe()
            assert asked["code_challenge_method"] == "S256"
            self.codes[code] = Grant(
                asked["client_id"],
                asked["code_challenge"],
                asked["redirect_uri"],
                self.faults.audience or asked["resource"],
                asked.get("scope", ""),
            )
            back["code"] = code
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", status_code=302)

    async def token(self, request: Request) -> Response:
        form = {
            name: values[0] for name, values in parse_qs((await request.body()).decode()).items()
        }
        self.exchanged.append(form)
        client = self._client_of(request, form)
        if self.faults.token_error or client is None:
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        if form["grant_type"] == "authorization_code":
            grant = self.codes.pop(form["code"], None)
            if grant is None or not self._fits(grant, client, form):
                return JSONResponse({"error": "invalid_grant"}, status_code=400)
        else:
            grant = self.refresh.pop(form["refresh_token"], None)
            if grant is None or grant.client != client or form.get("resource") != self.resource:
                return JSONResponse({"error": "invalid_grant"}, status_code=400)
        access, refresh = f"at-{secrets.token_urlsafe(24)}", f"rt-{secrets.token_urlsafe(24)}"
        self.access[access], self.refresh[refresh] = grant, grant
        told = {"access_token": access, "refresh_token": refresh, "token_type": "Bearer"}
        lasts = {} if self.faults.lasts is None else {"expires_in": self.faults.lasts}
        return JSONResponse({**told, **lasts, "scope": grant.scope})

    def _client_of(self, request: Request, form: dict[str, str]) -> str | None:
        """Who asks: with a secret where one was agreed."""
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        if scheme == "Basic":
            name, _, secret = base64.b64decode(shown).decode().partition(":")
            client = self.clients.get(unquote(name), {})
            return unquote(name) if client.get("client_secret") == unquote(secret) else None
        name = form.get("client_id", "")
        return None if self.clients.get(name, {}).get("client_secret") else name

    def _fits(self, grant: Grant, client: str, form: dict[str, str]) -> bool:
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        return (grant.client, grant.challenge, grant.redirect) == (
            client,
            challenge,
            form.get("redirect_uri"),
        ) and form.get("resource") == self.resource


@asynccontextmanager
async def login_place(**faults: Any) -> AsyncIterator[LoginPlace]:
    """Both servers, while it is entered."""
    listening = socket.create_server(("127.0.0.1", 0))
    place = LoginPlace(f"http://127.0.0.1:{listening.getsockname()[1]}", Faults(**faults))
    config = uvicorn.Config(place.app(), log_level="warning", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    # Not `serve`: that would take over the signals of the test process.
    task = asyncio.create_task(server._serve(sockets=[listening]))
    try:
        yield place
    finally:
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await task
        listening.close()


async def browse(url: str) -> None:
    """What a user's browser does: go there, and where it is sent to."""
    async with httpx2.AsyncClient() as http:
        answer = await http.get(url)
        if answer.status_code == 302:
            await http.get(answer.headers["location"])
