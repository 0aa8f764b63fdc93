"""A host of its own, with a server and a writer of its threads, whose network can be cut.

    python -m tests.store.vanishing_host

A network namespace stands in for the host: its loopback carries what the two say to each other,
and whoever is outside reaches the server by its socket. Cut, everything that is sent is lost,
and nobody is told: no connection is closed.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914
_UP = 1


def enter() -> None:
    """Move into a network that has nothing but a loopback device."""
    user, group = os.geteuid(), os.getegid()
    flags = _NEW_NET if user == 0 else _NEW_NET | _NEW_USER
    if ctypes.CDLL(None, use_errno=True).unshare(flags):
        raise OSError(ctypes.get_errno(), "unshare")
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def connect(*, up: bool) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        asked = struct.pack("16sH14x", b"lo", 0)
        _, flags = struct.unpack("16sH14x", fcntl.ioctl(control, _GET_FLAGS, asked))
        flags = flags | _UP if up else flags & ~_UP
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags))


def main() -> None:
    enter()
    connect(up=True)
    from treadle.testing.postgres import PostgresServer

    from .test_postgres_leases import HOLD

    server = PostgresServer()
    try:
        address = server.create("agents")
        sys.stdout.write(f"{address}?host={server.directory}\n")
        sys.stdout.flush()
        for line in sys.stdin:
            word, *thread = line.split()
            if word == "hold":
                # A lease of an hour: nobody waits for it to run out.
                subprocess.Popen([sys.executable, "-c", HOLD, address, *thread, "3600"])
            else:
                connect(up=word == "mend")
    finally:
        server.close()


if __name__ == "__main__":
    main()
