from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from treadle.core.errors import ConfigError
from treadle.models.transport import (
    AsyncTransport,
    NoConnection,
    Proxies,
    ProxyRefused,
    TimedOut,
    Timeouts,
    TlsFailed,
    TlsTrust,
)
from treadle.models.transport.address import HttpOrigin

from .proxy import SocksProxy, TunnelProxy
from .servers import Peer, echo, post, serving, tls_context


def through(proxy_url: str, **extra: str) -> Proxies:
    return Proxies.from_environment({"ALL_PROXY": proxy_url, **extra})


async def test_plain_http_goes_through_in_absolute_form():
    async with serving(echo) as server:
        proxy = TunnelProxy({"api.test": server.port})
        async with (
            serving(proxy) as door,
            AsyncTransport(proxies=through(door.url(""))) as transport,
        ):
            assert await post(transport, "http://api.test/v1?x=1", b"hello") == b"hello"
    expected = (
        "POST http://api.test/v1?x=1 HTTP/1.1\r\nHost: api.test\r\n"
        "Accept-Encoding: identity\r\nContent-Length: 5\r\n\r\n"
    )
    assert proxy.heads == [expected]


async def test_https_goes_through_a_tunnel_that_sees_no_header(authority: trustme.CA, bundle: Path):
    heads: list[str] = []

    async def handler(peer: Peer) -> None:
        while True:
            head, body = await peer.request()
            heads.append(head)
            await peer.answer(body)

    async with serving(handler, tls=tls_context(authority, "api.test")) as server:
        proxy = TunnelProxy({"api.test:443": server.port}, authorization="Basic dTpwQHNz")
        async with serving(proxy) as door:
            proxies = through(f"http://u:p%40ss@127.0.0.1:{door.port}")
            transport = AsyncTransport(proxies=proxies, trust=TlsTrust(files=(bundle,)))
            async with transport:
                for body in (b"one", bytes(4 << 20)):
                    assert await post(transport, "https://api.test/v1", body) == body
    expected = (
        "CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n"
        "Proxy-Authorization: Basic dTpwQHNz\r\n\r\n"
    )
    assert proxy.heads == [expected]
    assert server.accepted == 1
    assert all(head.startswith("POST /v1 HTTP/1.1\r\nHost: api.test\r\n") for head in heads)
    assert not any("Proxy" in head for head in heads)


async def test_the_far_certificate_is_checked_inside_the_tunnel(
    authority: trustme.CA, bundle: Path
):
    tls = tls_context(authority, "other.test")
    async with (
        serving(echo, tls=tls) as server,
        serving(TunnelProxy({"api.test:443": server.port})) as door,
        AsyncTransport(proxies=through(door.url("")), trust=TlsTrust(files=(bundle,))) as transport,
    ):
        with pytest.raises(TlsFailed, match="Hostname mismatch"):
            await post(transport, "https://api.test/")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_wants_a_password_says_so_without_showing_one(scheme: str):
    async with serving(TunnelProxy({}, authorization="Basic right")) as door:
        proxies = through(f"http://user:wrong-pw@127.0.0.1:{door.port}")
        async with AsyncTransport(proxies=proxies) as transport:
            with pytest.raises(ProxyRefused) as caught:
                await post(transport, f"{scheme}://api.test/")
    assert (caught.value.status, caught.value.retryable) == (407, False)
    assert "wrong-pw" not in repr(caught.value)
    assert "wrong-pw" not in repr(proxies)
    assert proxies.https
    assert proxies.https.credentials not in repr(proxies)


async def test_a_proxy_that_cannot_reach_the_host_may_be_tried_again():
    async with (
        serving(TunnelProxy({})) as door,
        AsyncTransport(proxies=through(door.url(""))) as transport,
    ):
        with pytest.raises(ProxyRefused) as caught:
            await post(transport, "https://api.test/")
    assert (caught.value.status, caught.value.retryable) == (502, True)


async def test_a_proxy_that_hangs_up_is_no_connection():
    async def hang_up(peer: Peer) -> None:
        await peer.request()

    async with (
        serving(hang_up) as door,
        AsyncTransport(proxies=through(door.url(""))) as transport,
    ):
        with pytest.raises(NoConnection, match=r"the proxy .* closed the connection"):
            await post(transport, "https://api.test/")


async def test_a_proxy_that_stays_silent_times_out_as_a_connection_does():
    async with (
        serving(Peer.gone) as door,
        AsyncTransport(proxies=through(door.url(""))) as transport,
    ):
        with pytest.raises(TimedOut) as caught:
            await transport.get("https://api.test/", {}, timeouts=Timeouts(connect=0.2))
    assert caught.value.phase == "connect"


async def test_what_is_on_this_machine_is_never_asked_of_a_proxy():
    async with serving(echo) as server:
        proxies = through("http://nowhere.invalid:1")
        async with AsyncTransport(proxies=proxies) as transport:
            assert await post(transport, server.url()) == b"x"
            assert await post(transport, server.url(host="localhost")) == b"x"


async def test_http_and_https_go_through_a_proxy_that_is_reached_over_tls(
    authority: trustme.CA, bundle: Path
):
    door_tls = tls_context(authority, "127.0.0.1")
    trust = TlsTrust(files=(bundle,))
    async with (
        serving(echo) as plain,
        serving(echo, tls=tls_context(authority, "api.test")) as secure,
    ):
        names = {"api.test": plain.port, "api.test:443": secure.port}
        proxy = TunnelProxy(names, authorization="Basic dTpw")
        async with serving(proxy, tls=door_tls) as door:
            proxies = through(f"https://u:p@127.0.0.1:{door.port}")
            async with AsyncTransport(proxies=proxies, trust=trust) as transport:
                assert await post(transport, "http://api.test/v1", b"one") == b"one"
                body = bytes(1 << 20)
                assert await post(transport, "https://api.test/v1", body) == body
    methods = [head.split(" ", 1)[0] for head in proxy.heads]
    assert methods == ["POST", "CONNECT"]


async def test_the_certificate_of_a_proxy_is_checked(authority: trustme.CA):
    tls = tls_context(authority, "127.0.0.1")
    async with (
        serving(TunnelProxy({}), tls=tls) as door,
        AsyncTransport(proxies=through(f"https://127.0.0.1:{door.port}")) as transport,
    ):
        with pytest.raises(TlsFailed, match="not trusted"):
            await post(transport, "http://api.test/v1")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_everything_goes_through_a_socks_proxy_which_looks_up_names(
    authority: trustme.CA, bundle: Path, scheme: str
):
    tls = tls_context(authority, "api.test") if scheme == "https" else None
    async with serving(echo, tls=tls) as server:
        proxy = SocksProxy({"api.test": server.port}, login=("u", "p@ss"))
        async with serving(proxy) as door:
            proxies = through(f"socks5h://u:p%40ss@127.0.0.1:{door.port}")
            transport = AsyncTransport(proxies=proxies, trust=TlsTrust(files=(bundle,)))
            async with transport:
                for body in (b"one", bytes(1 << 20)):
                    assert await post(transport, f"{scheme}://api.test/v1", body) == body
    assert proxy.asked == [("api.test", 443 if scheme == "https" else 80)]
    assert server.accepted == 1


async def test_a_socks_proxy_that_does_not_look_up_names_gets_addresses():
    async with serving(echo) as server:
        proxy = SocksProxy({"192.0.2.7": server.port})
        async with (
            serving(proxy) as door,
            AsyncTransport(proxies=through(f"socks5://127.0.0.1:{door.port}")) as transport,
        ):
            assert await post(transport, "http://192.0.2.7/v1") == b"x"
    assert proxy.asked == [("192.0.2.7", 80)]


@pytest.mark.parametrize(
    ("login", "said", "retryable"),
    [
        (None, "it wants a login; put its user and password into its URL", False),
        (("u", "wrong"), "it does not accept the user and password", False),
        (("u", "right"), "the host cannot be reached", True),
    ],
)
async def test_a_socks_proxy_that_refuses_says_why_without_a_password(login, said, retryable):
    user = "" if login is None else f"{login[0]}:{login[1]}@"
    async with (
        serving(SocksProxy({}, login=("u", "right"))) as door,
        AsyncTransport(proxies=through(f"socks5h://{user}127.0.0.1:{door.port}")) as transport,
    ):
        with pytest.raises(NoConnection) as caught:
            await post(transport, "http://api.test/v1")
    assert said in str(caught.value)
    assert f"socks5://127.0.0.1:{door.port}" in str(caught.value)
    assert (caught.value.retryable, "right" in str(caught.value)) == (retryable, False)


async def test_what_speaks_no_socks_is_told_apart():
    async def other(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await peer.gone()

    async with (
        serving(other) as door,
        AsyncTransport(proxies=through(f"socks5h://127.0.0.1:{door.port}")) as transport,
    ):
        with pytest.raises(NoConnection, match="does not speak SOCKS5"):
            await post(transport, "http://api.test/v1")


def test_each_scheme_has_its_variable_and_lower_case_wins():
    environment = {
        "http_proxy": "one:1",
        "HTTP_PROXY": "http://two:2",
        "HTTPS_PROXY": "http://three",
        "ALL_PROXY": "http://four:4",
    }
    proxies = Proxies.from_environment(environment)
    assert str(proxies.choose(HttpOrigin("http", "a.test", 80))) == "http://one:1"
    assert str(proxies.choose(HttpOrigin("https", "a.test", 443))) == "http://three"
    rest = Proxies.from_environment({"all_proxy": "http://four:4", "HTTPS_PROXY": ""})
    assert str(rest.choose(HttpOrigin("https", "a.test", 443))) == "http://four:4"
    assert Proxies.from_environment({}) == Proxies()


def test_a_web_servers_proxy_header_is_not_taken_for_a_setting():
    environment = {"HTTP_PROXY": "http://evil:1", "REQUEST_METHOD": "GET"}
    assert Proxies.from_environment(environment) == Proxies()


@pytest.mark.parametrize(
    "value", ["socks4://u:secret@h:1", "ftp://u:secret@h", "http://", "http://u:secret@h:port"]
)
def test_what_is_no_proxy_is_refused_without_being_shown(value: str):
    with pytest.raises(ConfigError, match="HTTPS_PROXY is not a proxy that we know") as caught:
        Proxies.from_environment({"HTTPS_PROXY": value})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("rules", "host", "port", "direct"),
    [
        ("example.com", "example.com", 443, True),
        ("example.com", "api.example.com", 443, True),
        ("example.com", "notexample.com", 443, False),
        ("example.com", "example.com.evil.test", 443, False),
        (".example.com", "api.example.com", 443, True),
        (".example.com", "example.com", 443, True),
        ("*.example.com", "api.example.com", 443, True),
        ("EXAMPLE.com", "example.com", 443, True),
        ("example.com", "example.com.", 443, True),
        ("example.com:8443", "example.com", 8443, True),
        ("example.com:8443", "example.com", 443, False),
        ("*", "anything.test", 1, True),
        ("*:8080", "anything.test", 8080, True),
        ("*:8080", "anything.test", 80, False),
        ("a.test, b.test c.test", "c.test", 443, True),
        ("a.test,,b.test,", "d.test", 443, False),
        ("10.0.0.0/8", "10.20.30.40", 443, True),
        ("10.0.0.0/8", "11.0.0.1", 443, False),
        ("10.0.0.0/8", "ten.test", 443, False),
        ("192.168.1.7", "192.168.1.7", 443, True),
        ("192.168.1.7", "192.168.1.70", 443, False),
        ("192.168.1.7:80", "192.168.1.7", 80, True),
        ("192.168.1.7:80", "192.168.1.7", 443, False),
        ("fd00::/8", "fd12::1", 443, True),
        ("fd00::1", "fd00::1", 443, True),
        ("[fd00::1]", "fd00::1", 443, True),
        ("[fd00::1]:80", "fd00::1", 80, True),
        ("[fd00::1]:80", "fd00::1", 443, False),
        ("fd00::/8", "10.0.0.1", 443, False),
        ("", "example.com", 443, False),
    ],
)
def test_no_proxy(rules: str, host: str, port: int, direct: bool):
    proxies = through("http://proxy.test:3128", NO_PROXY=rules)
    assert (proxies.choose(HttpOrigin("https", host, port)) is None) is direct
