from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from treadle.models.transport import (
    DEFAULT_TIMEOUTS,
    Headers,
    Proxies,
    RequestRefused,
    TransportError,
)
from treadle.models.transport.address import Address, HttpOrigin, parse_url
from treadle.models.transport.http_request import encode_fields, prepare


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://a.test", Address(HttpOrigin("http", "a.test", 80), "/")),
        ("HTTPS://A.test/v1?x=1#part", Address(HttpOrigin("https", "a.test", 443), "/v1?x=1")),
        ("http://[::1]:8080/", Address(HttpOrigin("http", "::1", 8080), "/")),
        (
            "http://bücher.test/ü%20",
            Address(HttpOrigin("http", "xn--bcher-kva.test", 80), "/%C3%BC%20"),
        ),
    ],
)
def test_a_url_is_taken_apart(url: str, address: Address):
    assert parse_url(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.test/v1",
        "ftp://a.test/",
        "http:///v1",
        "http://user:secret@a.test/",
        "http://a.test:secret/",
        "http://a.test:99999/",
        "http://a.test/a b",
        "http://a.test/\r\nX: 1",
        "http://a.\ttest/",
        "http://[::1/",
    ],
)
def test_a_url_that_cannot_be_sent_is_refused_without_being_shown(url: str):
    with pytest.raises(RequestRefused) as caught:
        parse_url(url)
    assert "secret" not in str(caught.value)
    assert not caught.value.retryable


@given(st.text(), st.text())
def test_no_header_can_end_its_line(name: str, value: str):
    try:
        line = encode_fields({name: value}, "")
    except RequestRefused:
        return
    assert line.endswith(b"\r\n")
    assert line.count(b"\n") == line.count(b"\r") == 1
    assert line.partition(b":")[0] == name.encode()


@pytest.mark.parametrize("value", ["sk-1\r\nX: 1", "sk-1\n", "sk-1\x00", "sk-1\u2028"])
def test_a_bad_value_is_refused_by_the_name_of_its_header(value: str):
    with pytest.raises(RequestRefused, match="header 'Authorization'") as caught:
        encode_fields({"Authorization": value}, "http://a.test")
    assert "sk-1" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Accept-Encoding"])
def test_the_transports_own_headers_cannot_be_given(name: str):
    with pytest.raises(RequestRefused, match="the transport's own"):
        encode_fields({name: "1"}, "")


def test_secrets_stay_out_of_what_is_printed():
    headers = Headers.from_fields(
        [("Set-Cookie", "s3cret"), ("X-Api-Key", "s3cret"), ("Server", "x")]
    )
    assert repr(headers) == snapshot(
        "Headers({'set-cookie': '…', 'x-api-key': '…', 'server': 'x'})"
    )
    url, fields = "https://a.test/v1?key=s3cret", {"Authorization": "Bearer s3cret"}
    request = prepare("GET", url, fields, DEFAULT_TIMEOUTS, Proxies(), body=None)
    assert b"s3cret" in request.head
    assert repr(request) == "<HttpRequest to https://a.test>"


def test_received_headers_have_lower_case_names_and_joined_values():
    headers = Headers.from_fields([("A", "1"), ("b", "2"), ("a", "3")])
    assert headers == {"a": "1, 3", "b": "2"}


def test_every_failure_says_whether_to_try_again():
    def tree(kind: type[TransportError]) -> set[type[TransportError]]:
        return {kind, *(leaf for child in kind.__subclasses__() for leaf in tree(child))}

    assert all(isinstance(kind.retryable, bool) for kind in tree(TransportError))
