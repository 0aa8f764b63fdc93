"""Every requirement of the source documents is held by a test or a row that is there."""

from __future__ import annotations

import re
import runpy
from functools import cache
from pathlib import Path

from treadle.testing.matrix import load_rows

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "seeds_page.py"))
REQUIREMENTS = [each for one in SCRIPT["documents"]() for each in one["requirements"]]
HELD = [(each["id"], held) for each in REQUIREMENTS for held in each["held"]]


@cache
def names_in(file: str) -> frozenset[str]:
    """The names of the tests in a file, without importing it."""
    path = ROOT / "tests" / file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return frozenset(re.findall(r"^\s*(?:async )?def (test_\w+)\(", text, flags=re.MULTILINE))


def is_there(held: str) -> bool:
    file, colons, name = held.partition("::")
    return name in names_in(file) if colons else held in rows()


@cache
def rows() -> frozenset[str]:
    return frozenset(row.id for row in load_rows())


def test_the_page_of_requirements_is_what_its_data_say():
    """Else: `python scripts/seeds_page.py`."""
    assert SCRIPT["page"]() == (ROOT / "docs" / "seeds.md").read_text(encoding="utf-8")


def test_every_test_and_row_that_holds_a_requirement_is_there():
    gone = [(number, each) for number, each in HELD if not is_there(each)]
    assert gone == [], "name what holds them now in scripts/seeds.toml, and write the page again"


def test_every_requirement_has_its_number_once_and_something_that_holds_it():
    ids = [each["id"] for each in REQUIREMENTS]
    counts = {"0": 143, "1": 53, "2": 49, "3": 87, "4": 52, "X": 5}
    assert ids == [
        f"{one}-{number:02}" if one != "X" else f"{one}-{number}"
        for one, count in counts.items()
        for number in range(1, count + 1)
    ]
    assert [each["id"] for each in REQUIREMENTS if not each["held"]] == []


def test_a_test_that_is_gone_is_found():
    assert is_there("test_seeds.py::test_a_test_that_is_gone_is_found")
    assert not is_there("test_seeds.py::test_that_nobody_wrote")
    assert not is_there("nowhere/test_seeds.py::test_that_nobody_wrote")
    assert not is_there("CTX-0")
