"""A wire that takes longer: a proxy on loopback, in a process of its own.

    python -m benchmarks.delay PORT SECONDS

Passes on to PORT whatever it hears, SECONDS later in each direction, and prints its own port.
It sleeps in threads: a loop would round half a millisecond up to a whole one.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def delayed(port: int, seconds: float) -> Iterator[int]:
    """Run one; yield its port."""
    command = [sys.executable, "-m", "benchmarks.delay", str(port), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _pass(source: socket.socket, sink: socket.socket, seconds: float) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            time.sleep(seconds)
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def main() -> None:
    port, seconds = int(sys.argv[1]), float(sys.argv[2])
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    while True:
        near, _ = listening.accept()
        far = socket.create_connection(("127.0.0.1", port))
        for each in (near, far):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for ends in ((near, far), (far, near)):
            threading.Thread(target=_pass, args=(*ends, seconds), daemon=True).start()


if __name__ == "__main__":
    main()
