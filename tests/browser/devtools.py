"""A browser as tests use it: open a page, ask it something, look at it.

Owns one Chromium process and the DevTools protocol, spoken over two pipes: no port and no
driver. Invariant: whatever Chromium does not answer in time ends the test with its name.
"""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .chromium import Chromium, find_chromiums

__all__ = ["DESKTOP", "PHONE", "Browser", "Page", "Screen"]

_TIMEOUT = 60.0
_FLAGS = (
    "--headless",
    "--no-sandbox",  # tests run as root in containers too, and look at our own pages only
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


@dataclass(frozen=True)
class Screen:
    """The size of a screen in CSS pixels."""

    width: int
    height: int
    mobile: bool = False


DESKTOP = Screen(1280, 900)
PHONE = Screen(390, 844, mobile=True)


class Browser:
    """A headless Chromium; use it as a context manager."""

    def __init__(self, chromium: Chromium) -> None:
        self._stack = ExitStack()
        profile = self._stack.enter_context(
            tempfile.TemporaryDirectory(prefix="treadle-chromium-", ignore_cleanup_errors=True)
        )
        their_input, self._input = os.pipe()
        self._output, their_output = os.pipe()
        # Chromium reads from 3 and writes to 4; a shell puts the pipes there.
        move = f'exec "$0" "$@" 3<&{their_input} 4>&{their_output}'
        self._process = subprocess.Popen(
            ["bash", "-c", move, chromium.binary, *_FLAGS, f"--user-data-dir={profile}"],
            env={**os.environ, **chromium.environ},
            pass_fds=(their_input, their_output),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_input)
        os.close(their_output)
        self._buffer = bytearray()
        self._count = 0
        self._pages: dict[str, Page] = {}

    @classmethod
    def start(cls) -> Browser:
        """Start the first Chromium that answers."""
        complaints: list[str] = []
        for chromium in find_chromiums():
            browser = cls(chromium)
            try:
                browser.call("Browser.getVersion")
            except RuntimeError as error:
                complaints.append(f"{str(chromium.binary)!r}: {error}")
                browser.close()
            else:
                return browser
        raise RuntimeError(f"no Chromium works here: {'; '.join(complaints)}")

    def open(self, url: str, screen: Screen = DESKTOP) -> Page:
        """Open a page in a tab of its own and wait until it has loaded."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        page = Page(self, attached["sessionId"])
        self._pages[page.session] = page
        for domain in ("Page", "Runtime", "Network"):
            page.call(f"{domain}.enable")
        page.resize(screen)
        page.go(url)
        return page

    def call(
        self, method: str, params: dict[str, Any] | None = None, session: str | None = None
    ) -> Any:
        """Send a command of the DevTools protocol and return its result."""
        self._count += 1
        number = self._count
        message: dict[str, Any] = {"id": number, "method": method, "params": params or {}}
        if session is not None:
            message["sessionId"] = session
        try:
            os.write(self._input, json.dumps(message).encode() + b"\0")
        except OSError as error:
            raise RuntimeError(f"Chromium has ended: {error}") from error
        while True:
            answer = self.receive(method)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def receive(self, wanted: str) -> dict[str, Any]:
        """Return the next message; events of a page are handed to it on the way."""
        end = time.monotonic() + _TIMEOUT
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._output], [], [], max(0.0, end - time.monotonic()))
            piece = os.read(self._output, 1 << 20) if ready else b""
            if not piece:
                why = "has ended" if ready else f"has not answered {wanted!r} in {_TIMEOUT:.0f} s"
                raise RuntimeError(f"Chromium {why}")
            self._buffer += piece
        text, _, rest = bytes(self._buffer).partition(b"\0")
        self._buffer = bytearray(rest)
        message: dict[str, Any] = json.loads(text)
        page = self._pages.get(message.get("sessionId", ""))
        if page is not None and "method" in message:
            page.hear(message["method"], message["params"])
        return message

    def close(self) -> None:
        """End Chromium and forget its profile."""
        os.close(self._input)
        self._process.kill()
        self._process.wait()
        os.close(self._output)
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@dataclass
class Page:
    """One tab. `problems` has its failed requests, its errors and what it logs as one."""

    browser: Browser
    session: str
    problems: list[str] = field(default_factory=list)
    _events: list[str] = field(default_factory=list)
    _requests: dict[str, str] = field(default_factory=dict)

    def call(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Send a command of the DevTools protocol to this tab."""
        return self.browser.call(method, params, self.session)

    def go(self, url: str) -> None:
        """Load another address and wait until it has loaded."""
        self._events.clear()
        answer = self.call("Page.navigate", {"url": url})
        if answer.get("errorText"):
            raise RuntimeError(f"{url!r}: {answer['errorText']}")
        # Another fragment of the same document loads nothing.
        while "loaderId" in answer and "Page.loadEventFired" not in self._events:
            self.browser.receive(f"load of {url}")

    def resize(self, screen: Screen) -> None:
        """Show the page on another screen."""
        size = {"width": screen.width, "height": screen.height}
        more = {"deviceScaleFactor": 1, "mobile": screen.mobile}
        self.call("Emulation.setDeviceMetricsOverride", {**size, **more})

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page, as JSON has it; promises are awaited."""
        options = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", options)
        if "exceptionDetails" in answer:
            told = answer["exceptionDetails"]
            raise RuntimeError(told.get("exception", {}).get("description", told["text"]))
        return answer["result"].get("value")

    def take_screenshot(self, file: Path) -> None:
        """Write what the screen shows as a PNG."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """Take an event of the DevTools protocol."""
        self._events.append(method)
        match method:
            case "Runtime.exceptionThrown":
                self.problems.append(params["exceptionDetails"]["text"])
            case "Runtime.consoleAPICalled" if params["type"] == "error":
                self.problems.append(f"console: {_join(params['args'])}")
            case "Network.requestWillBeSent":
                self._requests[params["requestId"]] = params["request"]["url"]
            case "Network.loadingFailed" if not params.get("canceled"):
                url = self._requests.get(params["requestId"], "?")
                self.problems.append(f"{url}: {params['errorText']}")
            case "Network.responseReceived" if params["response"]["status"] >= 400:
                response = params["response"]
                self.problems.append(f"{response['url']}: {response['status']}")


def _join(arguments: Iterable[dict[str, Any]]) -> str:
    return " ".join(str(each.get("value", each.get("description", ""))) for each in arguments)
