from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import SEEDS, check_of, names, seeds_of, words_of

SEED_FILES = [(name, path) for name in names() for path in seeds_of(name)]
LARGEST_SEED = 4096


@pytest.mark.parametrize(("name", "seed"), SEED_FILES, ids=lambda each: getattr(each, "name", each))
def test_what_is_kept_as_a_seed_breaks_nothing(name: str, seed: Path):
    check_of(name)(seed.read_bytes())


@pytest.mark.parametrize("name", names())
@given(st.data())
def test_words_in_any_order_break_nothing(name: str, data: st.DataObject):
    words = st.sampled_from((*words_of(name), b" "))
    pieces = data.draw(st.lists(words | st.binary(max_size=4), max_size=30))
    check_of(name)(b"".join(pieces))


def test_every_target_has_seeds_and_every_seed_a_target():
    assert sorted(path.name for path in SEEDS.iterdir()) == names()
    assert [name for name in names() if not seeds_of(name)] == []


def test_seeds_are_small():
    assert [path.name for _, path in SEED_FILES if path.stat().st_size > LARGEST_SEED] == []
