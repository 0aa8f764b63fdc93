"""The browsers of tests: `browser` for pages of the documentation, `chromium` for the inspector."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import playwright.sync_api
import pytest

from .devtools import Browser
from .inspector import LONG, SHORT_SCENES, Inspected, make_inspected, started_chromium


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with Browser.start() as browser:
        yield browser


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[[Path], str]]:
    """Serve directories on the loopback interface; returns the address of each."""
    servers: list[ThreadingHTTPServer] = []

    def start(directory: Path) -> str:
        handler = partial(_Quiet, directory=str(directory))
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[playwright.sync_api.Browser]:
    # Not for the session: its driver has a loop, and no test may run in two.
    with started_chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def inspected(tmp_path_factory: pytest.TempPathFactory) -> Inspected:
    """A home that nobody writes, made once for all workers."""
    place = tmp_path_factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place
    return make_inspected(place / "inspected-pages", *SHORT_SCENES, entries=LONG)
