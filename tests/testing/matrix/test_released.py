from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from treadle.testing.matrix import ContractRow, load_rows
from treadle.testing.matrix.released import (
    broken_promises,
    digest,
    missing_from_changelog,
    released_digests,
    write_digests,
)

ROOT = Path(__file__).parents[3]
ROW = ContractRow(
    id="A-1",
    domain="tools",
    title="T",
    source="here",
    harnesses=("treadle", "codex"),
    driver="a.b",
    given={"a": 1},
    expected={"b": 2},
)


def changed(**fields: Any) -> ContractRow:
    return msgspec.structs.replace(ROW, **fields)


def test_every_released_row_that_changed_is_in_the_changelog():
    found = broken_promises(load_rows(), released_digests())
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    missing = missing_from_changelog(found, changelog)
    assert {name: found[name] for name in missing} == {}, (
        "rows that were released are others now, or gone: "
        "name each in the unreleased part of CHANGELOG.md"
    )


def test_a_promise_is_what_is_given_and_expected_and_where():
    promised = {"A-1": digest(ROW)}
    same = changed(
        title="Other words", source="there", driver="c.d", harnesses=("codex", "treadle")
    )
    assert broken_promises([same], promised) == {}
    for row in (
        changed(given={"a": 2}),
        changed(expected={"b": 3}),
        changed(harnesses=("treadle",)),
        changed(deferred="not now"),
    ):
        assert broken_promises([row], promised) == {"A-1": "changed"}
    assert broken_promises([], promised) == {"A-1": "gone"}
    assert broken_promises([ROW, changed(id="A-2")], promised) == {}


def test_a_change_must_be_named_in_the_unreleased_part():
    text = "# Changelog\n\n## [Unreleased]\n- A-1, B-12: other\n\n## [0.1]\n- A-2 is new\n"
    assert missing_from_changelog(["A-1", "A-2", "B-1", "B-12", "A"], text) == ["A-2", "B-1", "A"]
    assert missing_from_changelog(["A-1"], "# Changelog\n") == ["A-1"]


def test_what_is_released_is_read_again_as_it_was(tmp_path):
    place = tmp_path / "released.json"
    write_digests([changed(id="B"), ROW], place)
    kept = msgspec.json.decode(place.read_bytes())
    assert kept == {"A-1": digest(ROW), "B": digest(ROW)}
    assert list(kept) == ["A-1", "B"]
