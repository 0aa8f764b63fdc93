"""A network that is a list of hosts, seen from commands that run in it."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from treadle.core.addresses import covers_host, is_public_address

from . import networked
from .arena import Arena, interpreter

REPOSITORY = Path(__file__).parents[2]
HOSTS = ["docs.example.org", "*.example.com"]

GET = """
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen("{url}").read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""
TUNNEL = """
import http.client, os, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
connection = http.client.HTTPConnection(proxy.hostname, proxy.port)
connection.set_tunnel("{host}", {port})
try:
    connection.request("GET", "/page")
    print(connection.getresponse().read().decode())
except OSError as error:
    print(error)
"""
RAW = """
import socket
talk = socket.create_connection(("127.0.0.1", 61080))
talk.sendall({sent!r})
print(talk.makefile("rb").read().decode(errors="replace"))
"""


def run(ground: Arena, *scripts: str, hosts: list[str] = HOSTS) -> networked.Results:
    jobs = networked.Jobs(
        uid=ground.uid,
        search=ground.search,
        python=interpreter(ground.uid),
        workspace=str(ground.workspace),
        home=str(ground.home),
        hosts=hosts,
        scripts=list(scripts),
    )
    done = subprocess.run(
        [sys.executable, "-m", networked.__name__, msgspec.json.encode(jobs).decode()],
        check=True,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    )
    return msgspec.json.decode(done.stdout, type=networked.Results)


def test_the_hosts_of_the_list_are_reached_by_plain_requests_and_tunnels(ground: Arena):
    done = run(
        ground,
        GET.format(url="http://docs.example.org/a/b?c=d"),
        TUNNEL.format(host="a.example.com", port=443),
    )
    assert done.outputs == ["hello\n", "hello\n"]
    assert done.refusals == [[], []]
    assert done.connected == [("93.184.216.34", 80), ("2606:2800:220:1::1", 443)]
    plain, tunnelled = done.heard
    assert plain.startswith("GET /a/b?c=d HTTP/1.1\r\nHost: docs.example.org\r\n")
    assert "Proxy-" not in plain
    assert tunnelled.startswith("GET /page HTTP/1.1\r\n")


NOT_LISTED = "is not among the hosts that commands may reach"
REFUSED = {
    "evil.net": NOT_LISTED,
    "example.com": NOT_LISTED,
    "docs.example.org.evil.net": NOT_LISTED,
    "93.184.216.34": NOT_LISTED,
    "127.0.0.1": NOT_LISTED,
    "2130706433": NOT_LISTED,
    "inner.example.com": "leads to ['10.0.0.5'], no public address",
    "loop.example.com": "leads to ['127.0.0.1'], no public address",
    "link.example.com": "leads to ['169.254.169.254'], no public address",
    "wrapped.example.com": "leads to ['64:ff9b::a9fe:a9fe'], no public address",
    "mapped.example.com": "leads to ['::ffff:127.0.0.1'], no public address",
    "unknown.example.com": "cannot be reached: no address for unknown.example.com",
}


def test_whatever_else_is_refused_and_told(ground: Arena):
    done = run(ground, *(TUNNEL.format(host=host, port=443) for host in REFUSED))
    for output, (host, why) in zip(done.outputs, REFUSED.items(), strict=True):
        assert f"[network refused: {host}:443 {why}]" in output
        assert "hello" not in output
    assert done.refusals == [[f"{host}:443 {why}"] for host, why in REFUSED.items()]
    assert done.connected == []


def test_a_plain_request_to_another_host_is_refused_too(ground: Arena):
    done = run(
        ground, RAW.format(sent=b"GET http://evil.net/ HTTP/1.1\r\nHost: docs.example.org\r\n\r\n")
    )
    assert "403 Forbidden" in done.outputs[0]
    assert done.refusals == [["evil.net:80 is not among the hosts that commands may reach"]]


NO_REQUESTS = (
    b"CONNECT docs.example.org HTTP/1.1\r\n\r\n",
    b"CONNECT evil@docs.example.org:443 HTTP/1.1\r\n\r\n",
    b"GET /etc/passwd HTTP/1.1\r\n\r\n",
    b"GET ftp://docs.example.org/ HTTP/1.1\r\n\r\n",
    b"GET http://evil.net@docs.example.org/ HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01 nothing \xff\r\n\r\n",
    b"GET http://docs.example.org:99999/ HTTP/1.1\r\n\r\n",
    b"CONNECT d\xc3\xb6cs.example.org:443 HTTP/1.1\r\n\r\n",
)
SECOND_MEANINGS = (
    *(b"X: a\nHost: other.example.net", b"X: a\rHost: other.example.net"),
    *(b"\x00Host: other.example.net", b"X: a\r\n Host: other.example.net"),
    *(b"Host : other.example.net", b"X: a\x0bHost: other.example.net"),
    *(b"Content-Length: 5\r\nContent-Length: 0", b"no header"),
    b"Content-Length: 5\r\nTransfer-Encoding: chunked",
)
TWO_WAYS = tuple(
    b"GET http://docs.example.org/ HTTP/1.1\r\n%b\r\n\r\n" % header for header in SECOND_MEANINGS
)


@pytest.mark.parametrize("heads", [NO_REQUESTS, TWO_WAYS], ids=["no-requests", "two-ways"])
def test_what_is_no_request_or_two_reaches_nothing(ground: Arena, heads: tuple[bytes, ...]):
    done = run(ground, *(RAW.format(sent=sent) for sent in heads))
    answers = dict(zip(heads, done.outputs, strict=True))
    assert [sent for sent, answer in answers.items() if "400 Bad Request" not in answer] == []
    assert (done.connected, done.heard) == ([], [])


def test_a_host_is_named_to_itself_by_the_name_that_was_checked(ground: Arena):
    sent = b"GET http://docs.example.org/ HTTP/1.1\r\nHost: other.example.net\r\nX: y\r\n\r\n"
    (heard,) = run(ground, RAW.format(sent=sent)).heard
    assert "other.example.net" not in heard
    assert "\r\nX: y\r\n" in heard


STOLEN = """
import array, ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
first = libc.syscall(434, 1, 0)
numbers = [int(name) for name in os.listdir("/proc/1/fd")]
for number in numbers:
    if os.readlink(f"/proc/1/fd/{number}").startswith("socket"):
        stolen = socket.socket(fileno=libc.syscall(438, first, number, 0))
        stolen.setblocking(False)
        passed = array.array("i", [0] * 50)
        try:
            while True:
                stolen.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
        except OSError as error:
            print(type(error).__name__)
"""


def test_the_way_on_which_the_proxy_got_its_socket_is_closed(ground: Arena):
    done = run(ground, TUNNEL.format(host="a.example.com", port=443) + STOLEN)
    assert done.outputs == ["hello\nBrokenPipeError\n"]


def test_nothing_is_reached_beside_the_proxy(ground: Arena):
    script = """
import socket
for where in (("93.184.216.34", 80), ("8.8.8.8", 53), ("10.0.0.1", 80)):
    try:
        socket.create_connection(where, 2)
        print("reached", where)
    except OSError as error:
        print(type(error).__name__)
try:
    print(socket.getaddrinfo("docs.example.org", 80))
except OSError as error:
    print("no name")
"""
    (output,) = run(ground, script).outputs
    assert "reached" not in output
    assert output.endswith("no name\n")


def test_a_command_finds_the_usual_variables_and_nothing_else_changed(ground: Arena):
    script = """
import os
print({name: os.environ.get(name) for name in ("https_proxy", "HTTP_PROXY", "NO_PROXY")})
print(os.environ.get("TREADLE_SANDBOX_NETWORK_DISABLED"), sorted(os.listdir("/proc/self/fd")))
"""
    (output,) = run(ground, script).outputs
    proxy = "http://127.0.0.1:61080"
    variables, rest = output.splitlines()
    assert variables == str(
        {"https_proxy": proxy, "HTTP_PROXY": proxy, "NO_PROXY": "localhost,127.0.0.1,::1"}
    )
    assert rest == "None ['0', '1', '2', '3']"


def test_a_command_ignores_the_signals_that_others_ignore(ground: Arena):
    script = "$ sed -n 's/SigIgn:.//p' /proc/self/status"
    (listed,), (plain,) = (run(ground, script, hosts=hosts).outputs for hosts in (HOSTS, []))
    assert int(listed, 16) & ~int(plain, 16) == 0


def test_a_missing_program_is_said_so(ground: Arena):
    assert "no-such-program" in run(ground, "$ exec no-such-program").outputs[0]


def test_nobody_outside_reaches_the_proxy(ground: Arena):
    script = (
        "import os, socket\n"
        "socket.create_connection(('127.0.0.1', 61080)).close()\n"
        "open('up', 'w').close()\n"
        "while os.path.exists('up'): os.sched_yield()"
    )
    up = ground.workspace / "up"
    with ThreadPoolExecutor() as pool:
        done = pool.submit(run, ground, script)
        while not up.exists():
            assert not done.done(), done.result().outputs
            time.sleep(0.01)
        try:
            assert listening() == []
        finally:
            up.unlink()
        assert done.result().outputs == [""]


def listening() -> list[str]:
    """Who listens on the proxy's port in our own network."""
    lines = Path("/proc/net/tcp").read_text().splitlines()
    return [line for line in lines if line.split()[1].endswith(f":{61080:04X}")]


def test_an_empty_list_is_no_network(ground: Arena):
    (output,) = run(ground, "import os; print('HTTPS_PROXY' in os.environ)", hosts=[]).outputs
    assert output == "False\n"


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
        *("0.0.0.0", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1"),
        *("192.88.99.1", "::", "::1", "::7f00:1", "::ffff:10.0.0.1", "64:ff9b::a00:1"),
        *("64:ff9b:1::1", "2002:a00:1::", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1"),
        *("ff02::1", "2001:db8::1", "2001::1", "100::1", "3fff::1", "5f00::1", "no address"),
    ],
)
def test_addresses_that_are_not_public(address: str):
    assert not is_public_address(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "1.1.1.1", "2606:4700::1111", "2a00:1450::1"])
def test_addresses_that_are_public(address: str):
    assert is_public_address(address)


@pytest.mark.parametrize(
    ("host", "covered"),
    [
        *(("docs.example.org", True), ("DOCS.Example.ORG.", True), ("a.example.com", True)),
        *(("a.b.example.com", True), ("example.com", False), ("xexample.com", False)),
        *(("example.org", False), ("docs.example.org..", False), ("", False), (".", False)),
        *(("a.example.com\0.evil.net", False), ("*.example.com", False), ("..example.com", False)),
    ],
)
def test_a_list_covers_names_as_they_are(host: str, covered: bool):
    assert covers_host(HOSTS, host) is covered
