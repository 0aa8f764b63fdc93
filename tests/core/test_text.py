from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.items import EncryptedContent, InputAudio, InputImage, InputText
from treadle.core.text import (
    TruncationPolicy,
    approx_tokens,
    truncate_output,
    truncate_text,
)

EMOJI = "😀" * 10 + "\nsecond line with text\n"
EXAMPLE = "this is an example of a long output that should be truncated"
IMAGE = InputImage("https://example.org/a.png")
SECRET = EncryptedContent("e" * 1_000)
SOUND = InputAudio("data:audio/wav;base64,AAAA")

policies = st.builds(TruncationPolicy, st.sampled_from(["bytes", "tokens"]), st.integers(0, 60))
MARKER = re.compile(r"…(\d+) (tokens|chars) truncated…")


def tokens(limit: int) -> TruncationPolicy:
    return TruncationPolicy("tokens", limit)


def octets(limit: int) -> TruncationPolicy:
    return TruncationPolicy("bytes", limit)


def ten(_: InputAudio) -> int:
    return 10


@pytest.mark.parametrize(
    ("text", "policy", "expected"),
    [
        (EMOJI, tokens(8), "😀😀😀😀…8 tokens truncated… line with text\n"),
        (EMOJI, octets(20), "😀😀…21 chars truncated…with text\n"),
        ("abcdef", tokens(0), "…2 tokens truncated…"),
        ("abcdef", octets(0), "…6 chars truncated…"),
        (EXAMPLE, tokens(5), "this is an…10 tokens truncated… truncated"),
        (EXAMPLE, octets(30), "this is an exam…30 chars truncated…ld be truncated"),
        ("", tokens(0), ""),
        ("", octets(0), ""),
        ("abcd", octets(4), "abcd"),
        ("abcd", tokens(1), "abcd"),
        ("abcde", octets(1), "…4 chars truncated…e"),
        ("éé", octets(3), "…1 chars truncated…é"),
        ("日本語", octets(5), "…2 chars truncated…語"),
    ],
)
def test_the_middle_is_cut_and_the_gap_is_counted(text, policy, expected):
    assert truncate_text(text, policy) == expected


@given(st.text(max_size=120), policies)
def test_what_fits_comes_back_as_it_is(text, policy):
    if len(text.encode()) <= policy.byte_budget:
        assert truncate_text(text, policy) == text


@given(
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="…"), max_size=120), policies
)
def test_a_cut_keeps_whole_characters_of_both_ends_within_the_budget(text, policy):
    size = len(text.encode())
    if size <= policy.byte_budget:
        return
    cut = truncate_text(text, policy)
    marker = MARKER.search(cut)
    assert marker is not None
    head, tail = cut[: marker.start()], cut[marker.end() :]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head.encode()) <= policy.byte_budget // 2
    assert len(tail.encode()) <= policy.byte_budget - policy.byte_budget // 2
    # No further character would have fitted on either side.
    rest = text[len(head) : len(text) - len(tail)]
    assert len((head + rest[0]).encode()) > policy.byte_budget // 2
    assert len((rest[-1] + tail).encode()) > policy.byte_budget - policy.byte_budget // 2
    if policy.mode == "tokens":
        assert (marker[1], marker[2]) == (str(approx_tokens(size - policy.byte_budget)), "tokens")
    else:
        assert (marker[1], marker[2]) == (str(len(rest)), "chars")


@pytest.mark.parametrize(("size", "expected"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2)])
def test_four_bytes_make_a_token_rounded_up(size, expected):
    assert approx_tokens(size) == expected


def test_budgets_are_told_in_both_units():
    assert (tokens(10).byte_budget, tokens(10).token_budget) == (40, 10)
    assert (octets(10).byte_budget, octets(10).token_budget) == (10, 3)


@pytest.mark.parametrize(("limit", "expected"), [(10_000, 12_000), (1, 2), (3, 4), (0, 0)])
def test_a_policy_is_scaled_upwards(limit, expected):
    assert tokens(limit).scale(1.2) == tokens(expected)


def test_plain_output_is_cut_as_text():
    assert truncate_output(EXAMPLE, tokens(5), ten) == truncate_text(EXAMPLE, tokens(5))


def test_parts_share_one_budget():
    parts = (InputText("aaaa"), IMAGE, InputText("b" * 20), InputText("c"), SECRET, InputText(""))
    assert truncate_output(parts, octets(10), ten) == (
        InputText("aaaa"),
        IMAGE,
        InputText("bbb…14 chars truncated…bbb"),
        SECRET,
        InputText("[omitted 2 text items ...]"),
    )


def test_a_token_budget_counts_every_text_rounded_up():
    parts = (InputText("aaaaa"), InputText("b"), InputText("c"))
    assert truncate_output(parts, tokens(3), ten) == (
        InputText("aaaaa"),
        InputText("b"),
        InputText("[omitted 1 text items ...]"),
    )


def test_a_budget_that_is_met_exactly_keeps_everything():
    parts = (InputText("aaaa"), InputText("bbbb"))
    assert truncate_output(parts, octets(8), ten) == parts
    assert truncate_output(parts, tokens(2), ten) == parts


def test_sound_takes_its_share_or_is_left_out():
    parts = (InputText("aaaa"), SOUND, SOUND, InputText("bbbb"))
    assert truncate_output(parts, tokens(12), ten) == (
        InputText("aaaa"),
        SOUND,
        InputText("bbbb"),
        InputText("[omitted 1 audio items ...]"),
    )
    assert truncate_output(parts, octets(43), ten) == (
        InputText("aaaa"),
        InputText("bbbb"),
        InputText("[omitted 2 audio items ...]"),
    )


def test_both_kinds_of_omission_are_told():
    parts = (InputText("aaaaaaaa"), InputText("b"), SOUND)
    assert truncate_output(parts, octets(4), ten) == (
        InputText("aa…4 chars truncated…aa"),
        InputText("[omitted 1 text items ...]"),
        InputText("[omitted 1 audio items ...]"),
    )


output_parts = st.one_of(
    st.builds(InputText, st.text(max_size=40)),
    st.sampled_from([IMAGE, SECRET, SOUND]),
)


@given(st.lists(output_parts, max_size=8), policies)
def test_no_image_or_secret_is_ever_lost_and_order_is_kept(parts, policy):
    cut = truncate_output(tuple(parts), policy, ten)
    assert [part for part in cut if part in (IMAGE, SECRET)] == [
        part for part in parts if part in (IMAGE, SECRET)
    ]
    whole = [part for part in cut if isinstance(part, InputText) and part in parts]
    spent = sum(len(part.text.encode()) for part in whole)
    assert spent <= policy.byte_budget
