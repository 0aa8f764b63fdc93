from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("<!-- limits")[2].partition("<!-- end of limits")[0]
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
ROWS = [
    (name, value)
    for line in TABLE.splitlines()
    if len(cells := [cell.strip() for cell in line.split("|")]) > 4
    for name, value in [(cells[2], cells[3])]
    if name.startswith("`")
]


def told(value: str) -> float:
    found = re.match(r"([\d.,]+) ?(\w*)", value)
    assert found, f"{value!r} is no number"
    return float(found[1].replace(",", "")) * UNITS.get(found[2], 1)


@pytest.mark.parametrize(("name", "value"), ROWS, ids=[name for name, _ in ROWS])
def test_limits_are_what_the_page_says(name: str, value: str):
    module, _, constant = name.strip("`").rpartition(".")
    assert getattr(import_module(f"treadle.{module}"), constant) == told(value)


def test_the_page_has_limits():
    assert len(ROWS) > 15


def test_the_tests_that_the_page_names_exist():
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
