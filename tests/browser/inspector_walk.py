"""Walks through the whole inspector, which is too long for each run of the tests.

    python -m tests.browser.inspector_walk      # `make web`; a few minutes

Every view of every sort of thread, at both sizes and in both themes, is opened and checked: no
problem, nothing out of reach, no name missing, no faint text, nothing of others that runs. Each
request is rendered again. Then threads of 1,000, 10,000 and 100,000 entries are opened: what
that takes must not grow with them. Pictures of all of it are in `screenshots/`.
"""

# ruff: noqa: T201 - it is a script

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect

from tests.web.inspector_home import SCENES, make_long_thread

from .inspector import (
    SCREENSHOTS,
    SIZES,
    Inspected,
    Look,
    Scheme,
    look_at,
    make_inspected,
    served,
    started_chromium,
)
from .sight import FIND_CROWDED, FIND_FAINT, FIND_NAMELESS, FIND_RUN, FIND_WIDE

CHECKS = (FIND_WIDE, FIND_CROWDED, FIND_NAMELESS, FIND_FAINT, FIND_RUN)
TABS = ("ledger", "transcript", "window", "summaries", "state", "agents", "plan", "compare")
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
LENGTHS = (1_000, 10_000, 100_000)
ROUNDS = 7
MOST_GROWTH = 2.0
"""How much longer the longest thread may take than the shortest, in one run."""


def places(look: Look, thread: str) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Every view of a thread that has something to show, with its last request."""
    for tab in TABS:
        yield tab, ("threads", thread, tab)
    number = look.say(
        f"fetch('/api/threads/{thread}/ledger?limit=1').then(told => told.json())"
        ".then(told => told.total)"
    )
    if number:
        yield "request", ("threads", thread, "requests", number)
    if number > 1:
        yield "diff", ("threads", thread, "requests", number - 1, "diff", number)


def walk(browser: Browser, link: str, inspected: Inspected) -> list[str]:
    """Open every view of every thread; return what is wrong."""
    wrong: list[str] = []
    for size in SIZES:
        for scheme in SCHEMES:
            with look_at(browser, link, size, scheme) as look:
                for at, (name, thread) in enumerate(inspected.threads.items()):
                    for view, parts in places(look, thread):
                        look.open(*parts)
                        where = f"{name[:40]!r} {view} {size} {scheme}"
                        wrong += [
                            f"{where}: {each}" for check in CHECKS for each in look.say(check)
                        ]
                        file = SCREENSHOTS / "walk" / f"{at:02}-{view}-{size}-{scheme}.png"
                        look.page.screenshot(path=file)
                # What an import names and does not bring cannot be shown; the page says so.
                wrong += [each for each in look.problems if "/images/" not in each]
            print(f"{size} {scheme}: {len(inspected.threads)} threads", flush=True)
    return wrong


def render_again(look: Look, inspected: Inspected) -> list[str]:
    """Render every request of the short threads again; return those that differ."""
    script = """
    async thread => {
      const read = async path => (await fetch(`/api/threads/${thread}${path}`)).json();
      const { total } = await read('/ledger?limit=1');
      const wrong = [];
      for (let n = 1; n <= Math.min(total, 50); n += 1)
        if (!(await read(`/requests/${n}/verify`)).same) wrong.push(n);
      return [total, wrong];
    }
    """
    wrong, many = [], 0
    for name, thread in inspected.threads.items():
        total, differ = look.page.evaluate(script, thread)
        many += min(total, 50)
        wrong += [f"{name!r}: request {n} is rendered differently" for n in differ]
    print(f"{many} requests rendered again, {len(wrong)} differ")
    return wrong


def growth(browser: Browser, link: str, threads: dict[int, str]) -> list[str]:
    """Open long threads in turns; return where the longest takes much longer."""
    views: dict[str, dict[int, list[float]]] = {view: {} for view in ("ledger", "transcript")}
    with look_at(browser, link) as look:
        for _ in range(ROUNDS):
            for entries, thread in threads.items():
                for view, times in views.items():
                    times.setdefault(entries, []).append(_first_paint(look, thread, view))
    wrong = []
    for view, taken in views.items():
        told = {entries: statistics.median(times) for entries, times in taken.items()}
        ratio = told[LENGTHS[-1]] / told[LENGTHS[0]]
        print(f"{view}: {', '.join(f'{n:,} {ms:.0f} ms' for n, ms in told.items())}: {ratio:.2f}")
        if ratio > MOST_GROWTH:
            wrong.append(f"{view} of {LENGTHS[-1]:,} entries takes {ratio:.1f} times as long")
    return wrong


def _first_paint(look: Look, thread: str, view: str) -> float:
    """Milliseconds from a click until the view is painted with its content."""
    look.open()
    wanted = "#timeline [data-request]" if view == "ledger" else "article[data-seq]"
    script = """
    ([hash, wanted]) => new Promise(painted => {
      const start = performance.now();
      const look = () => document.querySelector(wanted)
        ? requestAnimationFrame(() => painted(performance.now() - start))
        : requestAnimationFrame(look);
      location.hash = hash;
      look();
    })
    """
    taken: Any = look.page.evaluate(script, [f"#/threads/{thread}/{view}", wanted])
    expect(look.page.locator(wanted).first).to_be_visible()
    return float(taken)


def main() -> int:
    """Walk; print what is wrong."""
    with tempfile.TemporaryDirectory(prefix="treadle-web-") as scratch:
        inspected = make_inspected(Path(scratch), *SCENES)
        long = {
            entries: asyncio.run(make_long_thread(inspected.home, entries, f"{entries:,} entries"))
            for entries in LENGTHS
        }
        with served(inspected.home) as link, started_chromium() as browser:
            wrong = walk(browser, link, inspected)
            with look_at(browser, link) as look:
                wrong += render_again(look, inspected)
            wrong += growth(browser, link, long)
    print(*wrong, f"{len(wrong)} problems", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
