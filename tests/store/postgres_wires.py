"""Wires between a store and its server: one that is cut, and one that many share.

`CutWire` passes on what is said, until it is told where to lose it. `SharedWire` is a pooler in
transaction mode: it lends a session of the server for one transaction, and a session that one
client had locked something in goes to another one next.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Literal, Self, TypeAlias

__all__ = ["CutWire", "SharedWire", "parted", "through"]

Cut: TypeAlias = Literal["before", "during", "after"]
"""Before the server hears it, while it works on it, or after it has done it."""


def parted(address: str) -> tuple[str, str]:
    """Return the address of a server, and the name of the database there."""
    server, _, database = address.rpartition("/")
    return server, database


def through(wire: _Wire, address: str) -> str:
    """Return the address of a database as it is reached through a wire."""
    server, database = parted(address)
    return f"{server.rpartition(':')[0]}:{wire.port}/{database}"


_IDLE = b"Z\x00\x00\x00\x05I"
"""The server has ended a transaction and waits."""


class _Wire(ABC):
    """Accepts clients, and gives each a thread."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._open = True

    def __enter__(self) -> Self:
        accepting = threading.Thread(target=self._accept)
        accepting.start()
        self._threads.append(accepting)
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.drop()
        for thread in self._threads:
            thread.join()

    def drop(self) -> None:
        """Break every connection."""
        for each in list(self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while self._open:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self._sockets.add(client)
            thread = threading.Thread(target=self._run, args=(client,))
            thread.start()
            self._threads.append(thread)

    def _run(self, client: socket.socket) -> None:
        try:
            with suppress(OSError):
                self.serve(client)
        finally:
            self._sockets.discard(client)
            client.close()

    def _connect(self) -> socket.socket:
        server = socket.create_connection(("127.0.0.1", self._server))
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets.add(server)
        return server

    def _close(self, server: socket.socket) -> None:
        self._sockets.discard(server)
        server.close()

    @abstractmethod
    def serve(self, client: socket.socket) -> None:
        """Pass on what a client says, and what it is answered."""


class CutWire(_Wire):
    """Passes on what is said; `cut` says what the next one who speaks will lose."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.cut: Cut | None = None
        self.refuses = threading.Event()
        self.was_cut = threading.Event()

    def serve(self, client: socket.socket) -> None:
        if self.refuses.is_set():
            return
        server = self._connect()
        try:
            self._pass_on(client, server)
        finally:
            self._close(server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        loses_answer = False
        while True:
            for ready in select.select([client, server], [], [])[0]:
                said = ready.recv(1 << 16)
                if not said:
                    return
                if ready is client:
                    cut, self.cut = self.cut, None
                    if cut != "before":
                        server.sendall(said)
                    loses_answer |= cut == "after"
                else:
                    # What is lost is the end of a transaction; before it everything is heard.
                    cut = "after" if loses_answer and _IDLE in said else None
                    if cut is None:
                        client.sendall(said)
                if cut is not None and (ready is server or cut != "after"):
                    self.was_cut.set()
                    return


class SharedWire(_Wire):
    """Lends the sessions of a server to its clients, for one transaction each."""

    def __init__(self, port: int, database: str) -> None:
        super().__init__(port)
        self._database = database
        self._idle: list[socket.socket] = []
        self._greeting = b""

    def __exit__(self, *arguments: object) -> None:
        super().__exit__(*arguments)
        for server in self._idle:
            server.close()

    def serve(self, client: socket.socket) -> None:
        (length,) = struct.unpack("!I", _read(client, 4))
        if _read(client, length - 4)[:4] == struct.pack("!I", 80877103):
            client.sendall(b"N")  # no TLS here
            (length,) = struct.unpack("!I", _read(client, 4))
            _read(client, length - 4)
        self._give(self._take())
        # Its own number for the client, as poolers do: no session belongs to it.
        number = b"K" + struct.pack("!III", 12, 1 << 20 | id(client) & 0xFFFFF, 7)
        client.sendall(self._greeting + number + _IDLE)
        server: socket.socket | None = None
        waits = 0
        pending = b""
        try:
            while True:
                ready = select.select([client, *([server] if server else [])], [], [])[0]
                if server in ready and server is not None:
                    said = server.recv(1 << 16)
                    if not said:
                        return
                    client.sendall(said)
                    pending += said
                    ended, idle, pending = _ends(pending)
                    waits -= ended
                    if ended and waits == 0 and idle:
                        self._give(server)
                        server = None
                if client in ready:
                    kind = _read(client, 1)
                    size = _read(client, 4)
                    body = _read(client, struct.unpack("!I", size)[0] - 4)
                    if kind == b"X":
                        return
                    server = server or self._take()
                    server.sendall(kind + size + body)
                    waits += kind in {b"Q", b"S"}
        finally:
            if server is not None:
                self._close(server)

    def _take(self) -> socket.socket:
        """Return the session that was used last."""
        with suppress(IndexError):
            return self._idle.pop()
        server = self._connect()
        asked = f"user\0treadle\0database\0{self._database}\0\0".encode()
        server.sendall(struct.pack("!II", len(asked) + 8, 3 << 16) + asked)
        greeting = b""
        while True:
            kind = _read(server, 1)
            size = _read(server, 4)
            body = _read(server, struct.unpack("!I", size)[0] - 4)
            if kind == b"Z":
                self._greeting = greeting
                return server
            if kind != b"K":
                greeting += kind + size + body

    def _give(self, server: socket.socket) -> None:
        self._idle.append(server)


def _read(wire: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        said = wire.recv(size - len(found))
        if not said:
            raise ConnectionResetError
        found += said
    return found


def _ends(said: bytes) -> tuple[int, bool, bytes]:
    """Return how often the server said it was ready, whether in no transaction, and the rest."""
    ends, idle = 0, False
    while len(said) >= 5:
        size = struct.unpack("!I", said[1:5])[0] + 1
        if len(said) < size:
            break
        if said[:1] == b"Z":
            ends, idle = ends + 1, said[5:6] == b"I"
        said = said[size:]
    return ends, idle, said
