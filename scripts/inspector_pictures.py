"""Writes docs/images/inspector-*.png: the inspector as `docs/inspector.md` and the README show it.

python scripts/inspector_pictures.py   # a home is made, served, and looked at in Chromium
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import FloatRect, expect  # noqa: E402
from tests.browser.inspector import (  # noqa: E402
    Inspected,
    Look,
    Scheme,
    look_at,
    make_inspected,
    served,
    started_chromium,
)

IMAGES = ROOT / "docs" / "images"
SCENES = ("mending", "delegating", "branching", "lossless")
COLOURS = 96
"""Enough for a page of few colours; each picture stays below 60 kB."""


LOOKS = {
    "when": "sums",
    "reasoning": "First I read how they are made.",
    "calls": [{"name": "exec_command", "arguments": {"cmd": "cat sums.py"}}],
}
ASKS = {
    "text": "`add` subtracts. I turn the sign around.",
    "calls": [{"name": "exec_command", "arguments": {"cmd": "sed -i 's/a - b/a + b/' sums.py"}}],
}


def shoot(look: Look, name: str, height: int, top: int = 0) -> None:
    """Write a part of what the page shows, in few colours."""
    width = look.page.viewport_size["width"] if look.page.viewport_size else 0
    part: FloatRect = {"x": 0, "y": top, "width": width, "height": height}
    whole = Image.open(io.BytesIO(look.page.screenshot(clip=part))).convert("RGB")
    small = whole.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    file = IMAGES / f"inspector-{name}.png"
    small.save(file, optimize=True)
    print(f"{file.relative_to(ROOT)}  {file.stat().st_size:,} bytes")


def take_pictures(inspected: Inspected) -> None:
    """Look at the views that the documentation speaks of."""
    mended = inspected.threads["Mend the cache key"]
    lossless = next(name for name in inspected.threads if name.startswith("tell of 0"))
    over = ("threads", inspected.threads[lossless], "summaries")
    views: list[tuple[str, str, Scheme, tuple[object, ...], tuple[int, int]]] = [
        ("ledger", "desk", "light", ("threads", mended), (836, 0)),
        ("request", "desk", "light", ("threads", mended, "requests", 9), (900, 0)),
        ("window", "desk", "dark", ("threads", mended, "window"), (900, 0)),
        ("summaries", "desk", "light", over, (424, 202)),
        ("phone", "phone", "dark", ("threads", mended), (844, 0)),
    ]
    with served(inspected.home) as link, started_chromium() as browser:
        for name, size, scheme, parts, (height, top) in views:
            with look_at(browser, link, size, scheme) as look:
                look.open(*parts)
                if look.view == "ledger":
                    look.page.locator('#timeline [data-request="9"]').click()
                    look.page.mouse.move(0, 0)
                shoot(look, name, height, top)


def act(place: Path) -> None:
    """Talk to a scripted model in the page, and look at what it asks."""
    script = place / "model.jsonl"
    lines = map(json.dumps, (LOOKS, ASKS))
    script.write_text("\n".join(lines))
    project = place / "sums"
    project.mkdir()
    (project / "sums.py").write_text("def add(a, b):\n    return a - b\n")
    home = place / "acting"
    home.mkdir()
    (home / "config.toml").write_text('sandbox = "danger-full-access"\napproval = "untrusted"\n')
    with (
        served(home, "--control") as link,
        started_chromium() as browser,
        look_at(browser, link) as look,
    ):
        look.page.keyboard.press("n")
        look.page.get_by_label("Directory").fill(str(project))
        look.page.get_by_label("Model").fill(f"scripted:{script}")
        look.page.get_by_label("What should it do?").fill("The sums are wrong. Mend them.")
        look.page.locator("#new-start").click()
        expect(look.page.locator("[data-question]")).to_contain_text("sed -i")
        expect(look.page.locator("#live-turn")).to_contain_text("waits for you")
        shoot(look, "act", 620, 280)


if __name__ == "__main__":
    # A name that reads well in the pictures; one that is there already is not ours to empty.
    scratch = Path(tempfile.gettempdir(), "treadle")
    scratch.mkdir()
    try:
        take_pictures(make_inspected(scratch, *SCENES))
        act(scratch)
    finally:
        shutil.rmtree(scratch)
