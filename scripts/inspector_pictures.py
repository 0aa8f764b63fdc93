"""Writes docs/images/inspector-*.png: the inspector as `docs/inspector.md` and the README show it.

python scripts/inspector_pictures.py   # a home is made, served, and looked at in Chromium
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import FloatRect  # noqa: E402
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


def shoot(look: Look, name: str, height: int) -> None:
    """Write the upper part of what the page shows, in few colours."""
    width = look.page.viewport_size["width"] if look.page.viewport_size else 0
    part: FloatRect = {"x": 0, "y": 0, "width": width, "height": height}
    whole = Image.open(io.BytesIO(look.page.screenshot(clip=part))).convert("RGB")
    small = whole.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    file = IMAGES / f"inspector-{name}.png"
    small.save(file, optimize=True)
    print(f"{file.relative_to(ROOT)}  {file.stat().st_size:,} bytes")


def take_pictures(inspected: Inspected) -> None:
    """Look at the views that the documentation speaks of."""
    mended = inspected.threads["Mend the cache key"]
    lossless = next(name for name in inspected.threads if name.startswith("tell of 0"))
    views: list[tuple[str, str, Scheme, tuple[object, ...], int]] = [
        ("ledger", "desk", "light", ("threads", mended), 836),
        ("request", "desk", "light", ("threads", mended, "requests", 9), 900),
        ("window", "desk", "dark", ("threads", mended, "window"), 900),
        ("summaries", "desk", "light", ("threads", inspected.threads[lossless], "summaries"), 620),
        ("phone", "phone", "dark", ("threads", mended), 844),
    ]
    with served(inspected.home) as link, started_chromium() as browser:
        for name, size, scheme, parts, height in views:
            with look_at(browser, link, size, scheme) as look:
                look.open(*parts)
                if look.view == "ledger":
                    look.page.locator('#timeline [data-request="9"]').click()
                    look.page.mouse.move(0, 0)
                shoot(look, name, height)


if __name__ == "__main__":
    # A name that reads well in the pictures; one that is there already is not ours to empty.
    scratch = Path(tempfile.gettempdir(), "treadle")
    scratch.mkdir()
    try:
        take_pictures(make_inspected(scratch, *SCENES))
    finally:
        shutil.rmtree(scratch)
