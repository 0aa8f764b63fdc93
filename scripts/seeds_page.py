"""Writes docs/seeds.md: what the source documents ask for, and the tests and rows that hold it.

python scripts/seeds_page.py          # writes the page from seeds.toml; a test checks both
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "seeds.md"
DATA = ROOT / "scripts" / "seeds.toml"

_HEAD = """\
# Requirements

Treadle began with five documents: a plan for context engines on Codex (0), a proposal for one
policy over two harnesses (1), a proposal for signals to engines (2), a plan for a core that is
aligned with Codex (3) and the foundation of model-visible context (4). This page lists what they
ask for, in our own words, and what holds each requirement: a test below `tests/`, or a row of
[the contract matrix](contracts.md). Where Treadle does something else, the reason stands in the
last column. `python scripts/seeds_page.py` writes the page from `scripts/seeds.toml`; a test fails
when a test or a row that is named here is gone.
"""


def documents() -> list[dict[str, Any]]:
    """The documents with their requirements, in order."""
    found: list[dict[str, Any]] = tomllib.loads(DATA.read_text(encoding="utf-8"))["document"]
    return found


def page() -> str:
    """The whole page."""
    return "\n".join((_HEAD, *map(_section, documents())))


def _section(document: Mapping[str, Any]) -> str:
    lines = (_line(each) for each in document["requirements"])
    head = "| | asked for | held by | otherwise, because |\n|---|---|---|---|\n"
    return f"## {document['id']}: {document['title']}\n\n{head}" + "".join(lines)


def _line(requirement: Mapping[str, Any]) -> str:
    held, reason = ", ".join(_holders(requirement["held"])), requirement.get("reason", "")
    return f"| {requirement['id']} | {requirement['asks']} | {held} | {reason} |\n"


def _holders(held: list[str]) -> Iterator[str]:
    for each in held:
        yield f"`{each}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
