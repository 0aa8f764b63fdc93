from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.engines.lossless.writing.clipping import byte_size, clip, clip_middle

from .samples import texts

FAMILY = "👩\u200d👩\u200d👧"


@given(texts, st.integers(0, 200))
def test_what_is_clipped_fits_and_what_fits_is_kept(text, size):
    for cut in (clip(text, size), clip_middle(text, size)):
        assert byte_size(cut) <= size
        assert cut == text or byte_size(text) > size


@given(texts, st.integers(0, 200))
def test_an_end_never_begins_with_a_mark_of_the_character_before(text, size):
    cut = clip_middle(text, size, "|")
    if cut not in (text, "") and "|" in cut and "|" not in text:
        tail = cut.partition("|")[2]
        assert not tail or unicodedata.category(tail[0]) not in ("Mn", "Mc", "Me")


@pytest.mark.parametrize("whole", [FAMILY, "🇩🇪", "👍🏽", "e\u0301\u0323", "각"])
def test_a_visible_character_is_kept_whole_or_not_at_all(whole):
    visible = ["a", "b", whole, "c", whole, "d"]
    beginnings = {"".join(visible[:end]) for end in range(len(visible))}
    text = "".join(visible)
    for size in range(byte_size(text)):
        assert clip(text, size).removesuffix("…") in beginnings


def test_both_ends_are_kept():
    assert clip_middle("the beginning and the end", 15, " … ") == "the b … e end"
