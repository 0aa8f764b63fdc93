from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
DOCS = TESTS.parent / "docs"
PAGE = (DOCS / "engine-contracts.md").read_text(encoding="utf-8")
MATRIX = (DOCS / "contracts.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`([\w./]+\.py)::(test_\w+)`")


def functions_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = (
        node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)
    )
    return {function.name for function in functions}


def test_every_test_that_the_page_names_is_there():
    named = NAMED.findall(PAGE) + NAMED.findall(MATRIX)
    known = {file: functions_in(TESTS / file) for file in {file for file, _ in named}}
    assert [name for file, name in named if name not in known[file]] == []
    assert len(named) > 200


def test_every_row_of_the_peer_is_on_the_page():
    spans = [range(int(a), int(b) + 1) for a, b in re.findall(r"CE-(\d+) to CE-(\d+)", PAGE)]
    told = {int(number) for number in re.findall(r"CE-(\d+)", PAGE)}.union(*spans)
    assert told == set(range(1, 30))
    assert set(re.findall(r"(?:LC|PJ)-\d", PAGE)) == {
        "LC-1",
        "LC-2",
        "LC-3",
        "PJ-1",
        "PJ-2",
        "PJ-3",
    }


def test_every_rule_names_a_test_that_holds_it():
    rules = PAGE.partition("## Decided otherwise")[0]
    rows = [line for line in rules.splitlines() if line.startswith("| ")]
    told = [row for row in rows if not row.endswith("| tested by |")]
    assert [row for row in told if not NAMED.search(row)] == []
