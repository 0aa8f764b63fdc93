from __future__ import annotations

import runpy
from pathlib import Path

import treadle

ROOT = Path(__file__).parents[1]


def test_the_api_page_is_what_the_docstrings_say():
    """Else: `python scripts/api_page.py`."""
    made = runpy.run_path(str(ROOT / "scripts" / "api_page.py"))["page"]()
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert made == page
    assert [name for name in treadle.__all__ if f"### `{name}`" not in page] == []


def test_the_events_page_is_what_the_docstrings_say():
    """Else: `python scripts/events_page.py`."""
    made = runpy.run_path(str(ROOT / "scripts" / "events_page.py"))["page"]()
    assert made == (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
