"""The inspector in a real browser: a home, the command that serves it, and a page that is driven.

Playwright drives the Chromium that `find_chromiums` finds; it brings none of its own. Its
driver runs only while a test module needs it: a loop of its own stands in the way of others.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlencode

from playwright.sync_api import Browser, Error, Page, Response, expect, sync_playwright

from .chromium import find_chromiums

__all__ = [
    "LONG",
    "SHORT_SCENES",
    "SIZES",
    "Inspected",
    "Look",
    "look_at",
    "make_inspected",
    "served",
    "started_chromium",
]

LONG = 100_000
"""Entries of the longest thread."""
SHORT_SCENES = (
    "mending",
    "delegating",
    "branching",
    "hostile",
    "lossless",
    "approvals",
    "imported-from-codex",
    "codex-tools",
)
ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "screenshots"
"""What tests saw, for people; git ignores it."""
SIZES: dict[str, dict[str, int]] = {
    "desk": {"width": 1280, "height": 900},
    "phone": {"width": 390, "height": 844},
}
_PATIENCE = 20_000
"""Milliseconds in which what is waited for must have happened."""
expect.set_options(timeout=_PATIENCE)
Scheme = Literal["light", "dark"]


@dataclass(frozen=True)
class Inspected:
    """A home, and its threads by their names."""

    home: Path
    threads: dict[str, str]


def make_inspected(place: Path, *scenes: str, entries: int = 0) -> Inspected:
    """Make a home with these scenes in `place`; once for all processes that share it."""
    place.mkdir(parents=True, exist_ok=True)
    known = place / "threads.json"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not known.exists():
            # In a process of its own: the driver of a browser may have its loop in this one.
            make = [sys.executable, "-m", "tests.web.inspector_home", str(place)]
            more = ["--entries", str(entries), "--only", *scenes]
            subprocess.run([*make, *more], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
            known.write_text(json.dumps(_threads_of(place / "home")))
    return Inspected(place / "home", json.loads(known.read_text()))


def _threads_of(home: Path) -> dict[str, str]:
    """The threads of a home by their names; of two with one name, the older."""
    command = [sys.executable, "-m", "treadle", "--home", str(home), "threads", "--json"]
    done = subprocess.run([*command, "--limit", "500"], capture_output=True, text=True, check=True)
    return {each["name"]: each["id"] for each in json.loads(done.stdout)}


@contextmanager
def served(home: Path, *options: str, **environ: str) -> Iterator[str]:
    """Run `treadle web` in a process of its own; its link."""
    command = [sys.executable, "-m", "treadle", "--home", str(home), "web", "--no-open", "--json"]
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        env={**os.environ, **environ},
        text=True,
        # Ctrl-C is for it alone.
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["link"]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


@contextmanager
def started_chromium() -> Iterator[Browser]:
    """Start the first Chromium that runs here."""
    complaints: list[str] = []
    with sync_playwright() as playwright:
        for found in find_chromiums():
            try:
                browser = playwright.chromium.launch(
                    executable_path=found.binary,
                    args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
                    env={**os.environ, **found.environ},
                )
            except Error as error:
                complaints.append(f"{str(found.binary)!r}: {error.message}")
                continue
            yield browser
            browser.close()
            return
    raise RuntimeError(f"no Chromium works here: {'; '.join(complaints)}")


@dataclass
class Look:
    """A page of the inspector. `problems` has what it should not have met."""

    page: Page
    problems: list[str] = field(default_factory=list)

    def open(self, *parts: object, **query: object) -> None:
        """Go to a view and wait until it is drawn."""
        path = "/".join(quote(str(part), safe="") for part in parts)
        asked = f"?{urlencode(query)}" if query else ""
        go = "hash => { document.body.dataset.ready = 'false'; location.hash = hash }"
        if self.page.evaluate("location.hash") == f"#/{path}{asked}":
            self.page.reload()
        else:
            self.page.evaluate(go, f"#/{path}{asked}")
        self.ready()

    def ready(self) -> None:
        """Wait until the view is drawn, with all that it loads afterwards."""
        self.page.wait_for_selector("body[data-ready=true]", state="attached")
        expect(self.page.locator("main [data-state=loading]")).to_have_count(0)

    def arrive(self, view: str) -> None:
        """Wait until the way that was taken has led to a view."""
        expect(self.page.locator("body")).to_have_attribute("data-view", view)
        self.ready()

    @property
    def view(self) -> str | None:
        return self.page.get_attribute("body", "data-view")

    def say(self, script: str) -> Any:
        return self.page.evaluate(script)


@contextmanager
def look_at(
    browser: Browser, link: str, size: str = "desk", scheme: Scheme = "light", **options: Any
) -> Iterator[Look]:
    """Open a link in a browser that knows nothing yet; what goes wrong there is remembered."""
    context = browser.new_context(
        viewport=SIZES[size],  # type: ignore[arg-type]
        color_scheme=scheme,
        has_touch=size == "phone",
        reduced_motion="reduce",
        **options,
    )
    context.set_default_timeout(_PATIENCE)
    page = context.new_page()
    look = Look(page)

    def answered(response: Response) -> None:
        if response.status >= 400:
            look.problems.append(f"{response.url}: {response.status}")

    page.on("response", answered)
    page.on("pageerror", lambda error: look.problems.append(f"error: {error.message}"))
    page.on("dialog", lambda dialog: look.problems.append(f"dialog: {dialog.message}"))
    page.on("console", lambda told: _hear(look, told.type, told.text))
    page.goto(link)
    try:
        look.ready()
        yield look
    except BaseException:
        page.screenshot(path=SCREENSHOTS / "inspector-failed.png")
        raise
    finally:
        context.close()


def _hear(look: Look, kind: str, text: str) -> None:
    # A failed request is told by its answer.
    if kind in {"error", "warning"} and not text.startswith("Failed to load resource"):
        look.problems.append(f"console: {text}")
