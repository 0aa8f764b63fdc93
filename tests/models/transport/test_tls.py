from __future__ import annotations

import hashlib
import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.x509 import load_pem_x509_certificate

from treadle.core.errors import ConfigError
from treadle.models.transport import (
    AsyncTransport,
    NoConnection,
    TimedOut,
    Timeouts,
    TlsFailed,
    TlsTrust,
    TransportError,
)

from .servers import Peer, echo, post, serving, tls_context


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_trusted_server_is_answered_over_one_kept_connection(
    authority: trustme.CA, bundle: Path, host: str
):
    tls = tls_context(authority, "localhost", "127.0.0.1")
    transport = AsyncTransport(trust=TlsTrust(files=(bundle,)))
    async with serving(echo, tls=tls) as server, transport:
        assert await post(transport, server.url(host=host), b"a") == b"a"
        assert await post(transport, server.url(host=host), bytes(8 << 20)) == bytes(8 << 20)
    assert server.accepted == 1


async def test_the_server_learns_the_name_that_was_asked_for(authority: trustme.CA, bundle: Path):
    tls = tls_context(authority, "localhost")
    names: list[str | None] = []
    tls.sni_callback = lambda _socket, name, _context: names.append(name)
    transport = AsyncTransport(trust=TlsTrust(files=(bundle,)))
    async with serving(echo, tls=tls) as server, transport:
        await post(transport, server.url(host="localhost"))
    assert names == ["localhost"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_second_connection_resumes_the_session_of_the_first(
    authority: trustme.CA, bundle: Path, version: ssl.TLSVersion
):
    tls = tls_context(authority, "localhost")
    tls.maximum_version = version
    resumed: list[bool] = []

    async def handler(peer: Peer) -> None:
        resumed.append(peer.writer.get_extra_info("ssl_object").session_reused)
        await peer.request()
        await peer.answer(b"ok", b"Connection: close")

    transport = AsyncTransport(trust=TlsTrust(files=(bundle,)))
    async with serving(handler, tls=tls) as server, transport:
        assert await post(transport, server.url(host="localhost")) == b"ok"
        assert await post(transport, server.url(host="localhost")) == b"ok"
    assert resumed == [False, True]


async def test_an_unknown_authority_is_refused(authority: trustme.CA):
    tls = tls_context(authority, "localhost")
    async with serving(echo, tls=tls) as server, AsyncTransport() as transport:
        with pytest.raises(TlsFailed) as caught:
            await post(transport, server.url(host="localhost"))
    assert "not trusted" in str(caught.value)
    assert "SSL_CERT_FILE" in str(caught.value)
    assert not caught.value.retryable


async def test_a_certificate_for_another_host_is_refused(authority: trustme.CA, bundle: Path):
    transport = AsyncTransport(trust=TlsTrust(files=(bundle,)))
    async with serving(echo, tls=tls_context(authority, "other.example")) as server, transport:
        with pytest.raises(TlsFailed, match="Hostname mismatch"):
            await post(transport, server.url(host="localhost"))


async def test_a_server_without_tls_is_told_apart():
    async def handler(peer: Peer) -> None:
        await peer.reader.read(100)
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with serving(handler) as server, AsyncTransport() as transport:
        with pytest.raises(TlsFailed, match="check scheme, port"):
            await post(transport, f"https://localhost:{server.port}/")


async def test_a_server_that_hangs_up_in_the_handshake_is_told_apart():
    async def handler(peer: Peer) -> None:
        await peer.reader.read(100)

    async with serving(handler) as server, AsyncTransport() as transport:
        with pytest.raises(NoConnection) as caught:
            await post(transport, f"https://localhost:{server.port}/")
    assert caught.value.retryable


async def test_a_handshake_that_never_ends_times_out():
    async with serving(Peer.gone) as server, AsyncTransport() as transport:
        with pytest.raises(TimedOut) as caught:
            await transport.get(
                f"https://localhost:{server.port}/", {}, timeouts=Timeouts(connect=0.2)
            )
    assert caught.value.phase == "connect"


async def test_the_environment_names_the_authorities(authority: trustme.CA, bundle: Path):
    async with serving(echo, tls=tls_context(authority, "localhost")) as server:
        async with AsyncTransport.from_environment({"SSL_CERT_FILE": str(bundle)}) as transport:
            assert await post(transport, server.url(host="localhost")) == b"x"
        extra = AsyncTransport.from_environment({}, extra_authorities=(bundle,))
        async with extra as transport:
            assert await post(transport, server.url(host="localhost")) == b"x"


def name_hash(authority: trustme.CA) -> str:
    """What OpenSSL names the file of an authority whose name is plain lower-case text."""
    subject = load_pem_x509_certificate(authority.cert_pem.bytes()).subject.public_bytes()
    digest = hashlib.sha1(subject[2:], usedforsecurity=False).digest()
    return f"{int.from_bytes(digest[:4], 'little'):08x}"


async def test_a_directory_of_authorities_works(tmp_path: Path):
    authority = trustme.CA(organization_name="treadle", organization_unit_name="tests")
    authority.cert_pem.write_to_path(tmp_path / f"{name_hash(authority)}.0")
    tls = tls_context(authority, "localhost")
    transport = AsyncTransport.from_environment({"SSL_CERT_DIR": str(tmp_path)})
    async with serving(echo, tls=tls) as server, transport:
        assert await post(transport, server.url(host="localhost")) == b"x"


def test_the_named_authorities_stand_in_for_the_systems():
    environment = {"SSL_CERT_FILE": "/a.pem", "SSL_CERT_DIR": "/b:/c"}
    assert TlsTrust.from_environment(environment, Path("/x.pem")) == TlsTrust(
        files=(Path("/a.pem"), Path("/x.pem")), directories=(Path("/b"), Path("/c")), system=False
    )
    assert TlsTrust.from_environment({}) == TlsTrust()


async def test_a_missing_or_broken_authority_file_is_named(tmp_path: Path):
    missing, broken = tmp_path / "missing.pem", tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for path in (missing, broken):
        async with AsyncTransport(trust=TlsTrust(files=(path,))) as transport:
            with pytest.raises(ConfigError, match=path.name):
                await transport.get("https://localhost:1/", {})


@pytest.mark.parametrize("apart", [False, True], ids=["one file", "two files"])
async def test_a_server_that_asks_who_we_are_gets_our_certificate(
    authority: trustme.CA, bundle: Path, tmp_path: Path, apart: bool
):
    tls = tls_context(authority, "localhost")
    tls.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(tls)
    names: list[str] = []

    async def handler(peer: Peer) -> None:
        shown = peer.writer.get_extra_info("peercert")
        names.append(dict(shown["subjectAltName"])["DNS"])
        await echo(peer)

    own, key = authority.issue_cert("me.test"), tmp_path / "key.pem"
    file = tmp_path / "me.pem"
    if apart:
        file.write_bytes(own.cert_chain_pems[0].bytes())
        own.private_key_pem.write_to_path(key)
    else:
        own.private_key_and_cert_chain_pem.write_to_path(file)
    trust = TlsTrust(files=(bundle,), certificate=file, key=key if apart else None)
    async with serving(handler, tls=tls) as server:
        url = server.url(host="localhost")
        async with AsyncTransport(trust=trust) as known:
            assert await post(known, url, b"a") == b"a"
        async with AsyncTransport(trust=TlsTrust(files=(bundle,))) as nobody:
            with pytest.raises(TransportError):
                await post(nobody, url)
    assert names == ["me.test"]


async def test_a_client_certificate_that_cannot_be_used_is_named(tmp_path: Path):
    missing, broken = tmp_path / "missing.pem", tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for path in (missing, broken):
        async with AsyncTransport(trust=TlsTrust(certificate=path)) as transport:
            with pytest.raises(ConfigError, match=path.name):
                await transport.get("https://localhost:1/", {})
