"""The network proxy: the only way out for commands whose network is a list of hosts.

Owns the connections of one command. Nothing but the command can reach it: it listens in the
command's network namespace, on a socket that was made there and handed over. Invariants: a
name is compared with the list when it is connected to; the address that was checked is the one
that is connected to; whatever is refused is said.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from ..core.addresses import covers_host, is_public_address, plain_host

__all__ = ["Network", "NetworkProxy", "OpenNetwork", "Refused"]

_LARGEST_HEAD = 64 * 1024
_HEAD_SECONDS = 60.0
_CONNECT_SECONDS = 15.0
_CHUNK = 1 << 16
_MOST_CONNECTIONS = 256
_MOST_REFUSALS = 50
"""Different refusals of one command that are told."""
_HOP_HEADERS = rb"(?i)(host|connection|keep-alive|proxy-[a-z-]+|upgrade):"
_LENGTHS = rb"(?i)(content-length|transfer-encoding):"
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_HEADER = re.compile(_TOKEN + rb":[^\x00-\x08\x0a-\x1f\x7f]*")
"""One header and nothing else: a host that ends lines at less would read another in it."""
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Network(Protocol):
    """How names become addresses, and addresses connections."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of `host`. Raises `OSError`."""
        ...

    async def connect(
        self, address: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to an address. Raises `OSError`."""
        ...


class OpenNetwork:
    """The network of this machine."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of `host`, each once."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[4][0]) for address in found))

    async def connect(
        self, address: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to an address."""
        return await asyncio.open_connection(address, port)


class Refused(Exception):
    """Why something is not connected to, in one sentence."""

    def __init__(self, text: str, status: str = "403 Forbidden") -> None:
        super().__init__(text)
        self.status = status


class _Request(NamedTuple):
    """Where a request wants to go, and what is sent there first."""

    host: str
    port: int
    head: bytes
    """Empty for a tunnel."""


class NetworkProxy:
    """Connects one command with `hosts`, and with nothing else."""

    def __init__(
        self, hosts: Sequence[str], network: Network, on_refusal: Callable[[str], None]
    ) -> None:
        self._hosts, self._network, self._on_refusal = tuple(hosts), network, on_refusal
        self._told: set[str] = set()
        self._open: set[asyncio.Task[None]] = set()

    async def serve(self, handover: socket.socket) -> None:
        """Take the listening socket from `handover` and answer until this is cancelled."""
        listener = await _receive_listener(handover)
        if listener is None:
            return
        server = await asyncio.start_server(self._accept, sock=listener, limit=_LARGEST_HEAD)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()
            for task in tuple(self._open):
                task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= _MOST_CONNECTIONS:
            writer.close()
            return
        task = asyncio.ensure_future(self._answer(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            try:
                await self._join(reader, writer)
            except Refused as refused:
                self._tell(str(refused))
                body = f"{refused}\n".encode()
                head = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain\r\n"
                head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
            finally:
                writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.LimitOverrunError, TimeoutError):
            raise Refused("a request to the proxy had no end", "400 Bad Request") from None
        request = _parse(head)
        there, back = await self._connect(request.host, request.port)
        try:
            if request.head:
                back.write(request.head)
            else:
                writer.write(_ESTABLISHED)
            await _pass_on(reader, writer, there, back)
        finally:
            back.close()

    async def _connect(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        where = f"{host}:{port}"
        if not covers_host(self._hosts, host):
            raise Refused(f"{where} is not among the hosts that commands may reach")
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                addresses = await self._network.resolve(plain_host(host), port)
                inner = [each for each in addresses if not is_public_address(each)]
                if inner or not addresses:
                    raise Refused(f"{where} leads to {inner or 'nothing'}, no public address")
                return await self._connect_first(addresses, port)
        except (OSError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            raise Refused(f"{where} cannot be reached: {reason}", "502 Bad Gateway") from error

    async def _connect_first(
        self, addresses: Sequence[str], port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        *others, last = addresses
        for address in others:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS / len(addresses)):
                    return await self._network.connect(address, port)
        return await self._network.connect(last, port)

    def _tell(self, text: str) -> None:
        if text not in self._told and len(self._told) < _MOST_REFUSALS:
            self._told.add(text)
            self._on_refusal(text)


async def _receive_listener(handover: socket.socket) -> socket.socket | None:
    """Wait for the socket that the sandbox listens on; None when it ended before."""
    loop = asyncio.get_running_loop()
    handover.setblocking(False)
    readable = asyncio.Event()
    loop.add_reader(handover, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(handover)
    try:
        _, descriptors, _, _ = socket.recv_fds(handover, 1, 1, socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return None
    finally:
        # The command can get at the other end, through the first process of its sandbox.
        handover.close()
    return socket.socket(fileno=descriptors[0]) if descriptors else None


def _parse(head: bytes) -> _Request:
    """Return what a client asks of the proxy. Raises `Refused`."""
    line, _, rest = head.partition(b"\r\n")
    match line.split(b" "):
        case [b"CONNECT", authority, version] if version.startswith(b"HTTP/1."):
            return _Request(*_split(f"//{_text(authority)}", None), b"")
        case [method, target, version] if version.startswith(b"HTTP/1."):
            url = _text(target)
            if not url.lower().startswith("http://"):
                raise Refused(f"{url[:80]!r} is no address for a proxy", "400 Bad Request")
            host, port = _split(url, 80)
            return _Request(host, port, _origin_head(method, url, host, port, rest))
        case _:
            raise Refused("a request to the proxy was no HTTP", "400 Bad Request")


def _text(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise Refused("a request to the proxy named no host", "400 Bad Request") from None


def _split(url: str, usual: int | None) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or usual
    except ValueError:
        host, port = None, None
    if not host or not port or "@" in url.partition("//")[2].partition("/")[0]:
        raise Refused(f"{url[:80]!r} names no host and port", "400 Bad Request")
    return host, port


def _origin_head(method: bytes, url: str, host: str, port: int, rest: bytes) -> bytes:
    """Return the head that the host itself gets: it names this host, and closes at the end."""
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = [each for each in rest.split(b"\r\n") if each]
    if not all(map(_HEADER.fullmatch, (b"%b:" % method, *headers))):
        raise Refused(f"a request to {host} had a line that is no header", "400 Bad Request")
    if sum(bool(re.match(_LENGTHS, each)) for each in headers) > 1:
        raise Refused(f"a request to {host} had more than one length", "400 Bad Request")
    kept = [each for each in headers if not re.match(_HOP_HEADERS, each)]
    authority = host if port == 80 else f"{host}:{port}"
    lines = [
        b"%b %b HTTP/1.1" % (method, path.encode()),
        f"Host: {authority}".encode(),
        *kept,
        b"Connection: close",
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n"


async def _pass_on(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    there: asyncio.StreamReader,
    back: asyncio.StreamWriter,
) -> None:
    """Pass bytes in both directions until the host has said all."""
    outwards = asyncio.ensure_future(_copy(reader, back))
    try:
        await _copy(there, writer)
    finally:
        outwards.cancel()
        with suppress(asyncio.CancelledError, OSError):
            await outwards


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(_CHUNK):
        target.write(data)
        await target.drain()
    with suppress(OSError):
        target.write_eof()
