from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from treadle.core.errors import ConfigError
from treadle.testing.matrix import ContractRow, LeftOut, load_left_out, load_rows
from treadle.testing.matrix.contract_rows import DEFERRED_AT_MOST
from treadle.testing.matrix.drivers import find_driver
from treadle.testing.matrix.report import render_page

ROOT = Path(__file__).parents[3]
HEAD = 'domain = "tools"\nsource = "rc"\ndriver = "a.b"\nharnesses = ["shared"]\n'


def row(name: str, **more: Any) -> str:
    told = {"title": "T", "given": {}, "expected": {"a": 1}, **more}
    lines = [f"{key} = {_toml(value)}" for key, value in told.items()]
    return "\n".join(["[[row]]", f'id = "{name}"', *lines, ""])


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    return repr(value)


def written(place: Path, *parts: str) -> list[Path]:
    file = place / "tools.toml"
    file.write_text("\n".join(parts))
    return [file]


def test_the_head_of_a_file_holds_for_rows_that_say_nothing_else(tmp_path):
    files = written(
        tmp_path, HEAD, row("A"), row("B", source="seed", harnesses=["treadle", "codex"])
    )
    assert load_rows(files) == (
        ContractRow(
            id="A",
            domain="tools",
            title="T",
            source="rc",
            harnesses=("shared",),
            driver="a.b",
            given={},
            expected={"a": 1},
        ),
        ContractRow(
            id="B",
            domain="tools",
            title="T",
            source="seed",
            harnesses=("treadle", "codex"),
            driver="a.b",
            given={},
            expected={"a": 1},
        ),
    )
    assert [each.is_for_all for each in load_rows(files)] == [False, True]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ((HEAD, row("A"), row("A")), "the row 'A' is there twice"),
        ((HEAD, row("A", expected={})), "the row 'A' leaves something out"),
        ((HEAD, row("A", source="")), "the row 'A' leaves something out"),
        ((HEAD, row("A", colour="red")), "the rows in 'tools.toml' cannot be used"),
        (("not toml",), "the rows in 'tools.toml' cannot be used"),
        ((HEAD.replace("tools", "rooms"), row("A")), "the rows in 'tools.toml' cannot be used"),
        (
            (HEAD, *(row(f"A{n}", deferred="later") for n in range(DEFERRED_AT_MOST + 1))),
            "6 rows are deferred, at most 5 may be",
        ),
    ],
)
def test_rows_that_make_no_sense_are_refused(tmp_path, parts, said):
    with pytest.raises(ConfigError, match=said):
        load_rows(written(tmp_path, *parts))


def test_what_is_left_out_is_named_with_the_reason(tmp_path):
    told = '[[left_out]]\nids = "X-1"\nreason = "no rooms | here"\n'
    files = written(tmp_path, HEAD, told, row("A"))
    (found,) = load_left_out(files)
    assert found == LeftOut(domain="tools", ids="X-1", reason="no rooms | here")
    assert "| tools | X-1 | no rooms \\| here |" in render_page(load_rows(files), [found])


def test_every_row_that_ships_has_a_driver():
    assert {each.driver for each in load_rows() if find_driver(each.driver) is None} == set()


def test_no_two_rows_of_a_domain_promise_the_same_in_the_same_words():
    rows = load_rows()
    titles = [(each.domain, each.title, each.harnesses) for each in rows]
    assert sorted(title for title in titles if titles.count(title) > 1) == []


def test_there_are_enough_rows_and_enough_of_them_on_codex():
    rows = load_rows()
    on_codex = [each for each in rows if "codex" in each.harnesses and not each.deferred]
    deferred = [each for each in rows if each.deferred]
    assert (len(rows) >= 180, len(on_codex) >= 40, len(deferred) <= 5) == (True, True, True)


def test_the_page_is_made_from_the_rows():
    made = render_page(load_rows(), load_left_out())
    kept = (ROOT / "docs" / "contracts.md").read_text(encoding="utf-8")
    assert made == kept, "renew it: treadle contracts --page > docs/contracts.md"
