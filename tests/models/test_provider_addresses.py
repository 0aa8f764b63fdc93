from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from treadle import __version__
from treadle.core.redact import redact
from treadle.models.catalog import Catalog
from treadle.models.contract import AuthFailed
from treadle.models.providers import ProviderConfig, open_model
from treadle.testing.contracts.answers import collect_failed

from .requests import request
from .transport.servers import Peer, Server, serving, tls_context

DEPLOYMENT = "/openai/deployments/mine"


class Heads:
    """A server that keeps the heads of requests, and refuses them all."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, peer: Peer) -> None:
        head, _ = await peer.request()
        self.seen.append(head)
        await peer.answer(b"{}", status=b"400 No")

    @property
    def line(self) -> str:
        return self.seen[-1].split("\r\n")[0]

    def header(self, name: str) -> str:
        lines = [line.partition(": ") for line in self.seen[-1].split("\r\n")[1:]]
        return next((value for found, _, value in lines if found.lower() == name), "")


@asynccontextmanager
async def refusing(tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[Server, Heads]]:
    heads = Heads()
    async with serving(heads, tls=tls) as server:
        yield server, heads


async def ask(name: str, config: ProviderConfig, environ: dict[str, str] | None = None) -> str:
    provider = name.partition(":")[0]
    model = open_model(
        name, environ=environ or {}, catalog=Catalog.load(), config={provider: config}
    )
    try:
        _, error = await collect_failed(model, request(model))
    finally:
        await model.close()
    return str(error)


async def test_an_azure_deployment_is_reached_by_its_path_version_and_key():
    async with refusing() as (server, heads):
        config = ProviderConfig(
            api="chat", base_url=server.url(f"{DEPLOYMENT}?api-version=2024-10-21")
        )
        await ask("azure:mine", config, {"AZURE_OPENAI_API_KEY": "azure-secret"})
    assert heads.line == f"POST {DEPLOYMENT}/chat/completions?api-version=2024-10-21 HTTP/1.1"
    assert (heads.header("api-key"), heads.header("authorization")) == ("azure-secret", "")


async def test_query_parameters_stand_over_those_of_the_address():
    async with refusing() as (server, heads):
        config = ProviderConfig(
            api="responses",
            base_url=server.url("/x/?api-version=old&a=b"),
            query_params={"api-version": "new", "c": "d e"},
            key="k",
        )
        await ask("attic:m", config)
    assert heads.line == "POST /x/responses?api-version=new&a=b&c=d+e HTTP/1.1"


async def test_headers_come_from_variables_and_are_secrets():
    async with refusing() as (server, heads):
        config = ProviderConfig(
            base_url=server.url("/v1"), env_headers={"X-Gateway-Token": "GATEWAY_TOKEN"}
        )
        await ask("attic:m", config, {"GATEWAY_TOKEN": "gateway-secret-value"})
        assert heads.header("x-gateway-token") == "gateway-secret-value"
        assert heads.header("authorization") == ""
    assert "gateway-secret-value" not in redact("it said gateway-secret-value")
    with pytest.raises(AuthFailed, match=r"'X-Gateway-Token' of .*; set GATEWAY_TOKEN"):
        await ask("attic:m", config, {})


async def test_requests_say_who_asks_unless_the_settings_do():
    async with refusing() as (server, heads):
        config: dict[str, Any] = {"base_url": server.url("/v1"), "key_required": False}
        await ask("attic:m", ProviderConfig(**config))
        assert heads.header("user-agent").startswith(f"treadle/{__version__} (")
        await ask("attic:m", ProviderConfig(**config, headers={"User-Agent": "mine/1"}))
        assert heads.seen[-1].lower().count("user-agent") == 1
        assert heads.header("user-agent") == "mine/1"


async def test_a_provider_may_have_its_own_authority_and_see_our_certificate(tmp_path: Path):
    authority = trustme.CA()
    tls = tls_context(authority, "localhost")
    tls.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(tls)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("me.test").private_key_and_cert_chain_pem.write_to_path(
        tmp_path / "me.pem"
    )
    async with refusing(tls) as (server, heads):
        url = server.url("/v1", host="localhost")
        config = ProviderConfig(
            base_url=url,
            key_required=False,
            ca_file=str(tmp_path / "ca.pem"),
            client_certificate=str(tmp_path / "me.pem"),
        )
        assert "400" in await ask("attic:m", config)
        assert len(heads.seen) == 1
        stranger = ProviderConfig(base_url=url, key_required=False)
        assert "not trusted" in await ask("attic:m", stranger)
    assert len(heads.seen) == 1
