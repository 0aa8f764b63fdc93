"""The documentation as a reader sees it, on a desk and on a phone."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

import pytest

from .devtools import DESKTOP, PHONE, Browser, Page
from .inspector import SCREENSHOTS

pytestmark = pytest.mark.timeout(600)  # the first run may download a Chromium

ROOT = Path(__file__).parents[2]

# What is wider than its place: the page itself, and what a reader would have to scroll or
# cannot reach at all. A table or code that scrolls within the page is reachable.
FIND_OVERFLOW = """
(() => {
  const wide = [];
  const page = document.documentElement;
  if (page.scrollWidth > page.clientWidth) wide.push(`the page: ${page.scrollWidth}`);
  for (const each of document.querySelectorAll('.md-content img, .md-content svg')) {
    const box = each.getBoundingClientRect();
    if (box.width && box.right > page.clientWidth + 1) wide.push(`${each.tagName} ${each.src}`);
    if (each.tagName === 'IMG' && each.complete && !each.naturalWidth) wide.push(`no ${each.src}`);
  }
  for (const each of document.querySelectorAll('.md-content pre')) {
    const code = each.querySelector('code') || each;
    const hidden = getComputedStyle(code).overflowX === 'hidden';
    if (hidden && code.scrollWidth > code.clientWidth) wide.push(`cut: ${code.textContent}`);
  }
  return wide;
})()
"""
DIAGRAM = re.compile(r"[─│┌▼►]")
FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# By the letters of the longest line: a machine may have no monospaced font, which are all
# about 0.602 of their size wide.
FIND_CUT_DIAGRAMS = """
[...document.querySelectorAll('.md-content pre code')]
  .filter(code => /[─│┌▼►]/.test(code.textContent))
  .map(code => {
    const style = getComputedStyle(code);
    const longest = Math.max(...code.textContent.split('\\n').map(line => [...line].length));
    const place = code.clientWidth - parseFloat(style.paddingLeft);
    return [Math.round(longest * 0.602 * parseFloat(style.fontSize)), Math.round(place), longest];
  })
  .filter(([needed, place]) => needed > place)
"""
MEASURE_TEXT = """
(() => {
  const size = each => parseFloat(getComputedStyle(each).fontSize);
  const text = [...document.querySelectorAll('.md-content p, .md-content li')].map(size);
  const code = [...document.querySelectorAll('.md-content pre code')].map(size);
  return {text: Math.min(...text, 99), code: Math.min(...code, 99)};
})()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once for all workers."""
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    with (place / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "site").exists():
            shutil.copytree(ROOT / "docs", place / "site" / "docs")
            shutil.copy(ROOT / "zensical.toml", place / "site")
            build(place / "site")
    return place / "site" / "site"


def build(place: Path) -> None:
    """Build the site as `make docs` does: a warning is an error."""
    zensical = str(Path(sys.executable).with_name("zensical"))
    command = [zensical, "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Links(HTMLParser):
    """The addresses that a page names, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        for name, value in attrs:
            if name in {"href", "src"} and value:
                self.targets.append(value)
            elif name in {"id", "name"} and value:
                self.anchors.add(value)


def pages(site: Path) -> Iterator[Path]:
    return (file for file in site.rglob("*.html") if file.name != "404.html")


def test_no_link_of_the_site_is_broken(site: Path):
    parsed = {file: Links(file.read_text(encoding="utf-8")) for file in pages(site)}
    broken: list[str] = []
    for file, links in parsed.items():
        address = f"/{file.relative_to(site).parent.as_posix()}/".replace("/./", "/")
        for target in links.targets:
            url, anchor = urldefrag(urljoin(address, target))
            if ":" in url.partition("/")[0]:
                continue
            found = site / unquote(url).lstrip("/")
            found = found / "index.html" if found.is_dir() else found
            known = parsed[found].anchors if found in parsed else {anchor}
            if not found.is_file() or (anchor and unquote(anchor) not in known):
                broken.append(f"{address}: {target}")
    assert broken == []
    assert len(parsed) > 40


def test_every_page_is_in_the_navigation():
    def leaves(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        for each in value.values() if isinstance(value, dict) else value:
            if not isinstance(value, str):
                yield from leaves(each)

    settings = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    listed = sorted(leaves(settings["project"]["nav"]))
    docs = ROOT / "docs"
    assert listed == sorted(str(page.relative_to(docs)) for page in docs.rglob("*.md"))


def test_every_page_can_be_read_on_a_phone(
    site: Path, browser: Browser, serve: Callable[[Path], str]
):
    address = serve(site)
    page = browser.open(address, PHONE)
    assert page.evaluate(MEASURE_TEXT)["text"] >= 14
    # What a page looks like does not depend on its scripts, and without them it is quick.
    page.call("Emulation.setScriptExecutionDisabled", {"value": True})
    wrong: list[str] = []
    for name in sorted(file.relative_to(site).parent.as_posix() for file in pages(site)):
        page.go(f"{address}/{name}/")
        wrong += [f"{name}: {each}" for each in page.evaluate(FIND_OVERFLOW)]
    assert wrong == []
    assert page.problems == []


def test_no_diagram_is_cut_on_a_desk(site: Path, browser: Browser, serve: Callable[[Path], str]):
    widest = sorted((width(page), page) for page in (ROOT / "docs").rglob("*.md"))[-3:]
    assert widest[0][0] > 70
    address = serve(site)
    page = browser.open("about:blank", DESKTOP)
    page.call("Emulation.setScriptExecutionDisabled", {"value": True})
    for _, source in widest:
        name = source.relative_to(ROOT / "docs").with_suffix("").as_posix()
        page.go(f"{address}/{name}/")
        assert page.evaluate(FIND_CUT_DIAGRAMS) == [], name
        assert page.evaluate(FIND_OVERFLOW) == [], name


def width(page: Path) -> int:
    """The letters of the longest line of a diagram in the page."""
    blocks = FENCED.findall(page.read_text(encoding="utf-8"))
    lines = [line for block in blocks if DIAGRAM.search(block) for line in block.splitlines()]
    return max(map(len, lines), default=0)


def test_a_reader_on_a_phone_finds_the_way_from_the_first_page(
    site: Path, browser: Browser, serve: Callable[[Path], str]
):
    page = browser.open(serve(site), PHONE)
    page.take_screenshot(SCREENSHOTS / "site-phone.png")
    page.resize(DESKTOP)
    page.take_screenshot(SCREENSHOTS / "site-desk.png")
    assert open_link(page, "Getting started") == "Getting started"
    groups = page.evaluate(
        "[...document.querySelectorAll('.md-nav--primary > .md-nav__list > li')]"
        ".map(each => each.innerText.trim().split('\\n')[0])"
    )
    assert groups == [
        "Treadle",
        "Getting started",
        "How-to",
        "Reference",
        "Explanation",
        "Beside others",
        "Contracts",
    ]


def open_link(page: Page, text: str) -> str:
    """Follow a link of the content; return the heading of where it leads."""
    script = (
        "[...document.querySelectorAll('.md-content a')]"
        f".find(each => each.innerText === {text!r}).href"
    )
    page.go(page.evaluate(script))
    return str(page.evaluate("document.querySelector('.md-content h1').firstChild.textContent"))
