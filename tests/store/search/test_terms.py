from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.store.search.terms import fold, parse_query, split_words, stem, word_terms

STEMS = Path(__file__).with_name("stems.txt")
"""Words of the documentation, as Porter's paper of 1980 stems them: a stem, then its words."""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("caresses caress", "caress"),
        ("connect connected connecting connection connections", "connect"),
        ("hopping hopped hops", "hop"),
        ("agreed", "agre"),
        ("sized sizing", "size"),
        ("happy happiness", "happi"),
        ("relational relate", "relat"),
        ("generalizations generalize general", "gener"),
        ("controlling controlled", "control"),
        ("adoption adopted", "adopt"),
        ("yellow", "yellow"),
        ("sky", "sky"),
    ],
)
def test_the_forms_of_a_word_have_one_stem(words, expected):
    assert {stem(word) for word in words.split()} == {expected}


def test_stems_are_those_of_porters_paper():
    listed = [line.split() for line in STEMS.read_text().splitlines()]
    assert len(listed) > 1_000
    found = {word: stem(word) for _, *words in listed for word in words}
    assert found == {word: expected for expected, *words in listed for word in words}


def test_stems_differ_from_the_paper_after_consonants_that_english_rarely_doubles():
    assert {word: stem(word) for word in ("trekking", "revved")} == {
        "trekking": "trekk",
        "revved": "revv",
    }


def test_stems_are_found_by_many_threads_at_once():
    words = [word for line in STEMS.read_text().splitlines() for word in line.split()[1:]]
    expected = [*map(stem, words)]
    stem.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda _: [*map(stem, words)], range(8))]
    assert found == [expected] * 8


@given(st.text())
def test_only_plain_lower_case_words_are_stemmed(text):
    if not (text.isascii() and text.isalpha() and text.islower()):
        assert stem(text) == text
    assert len(stem(text)) <= max(len(text), 1)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Café CRÈME", "cafe creme"),
        ("Straße", "strasse"),
        ("ｆｕｌｌ", "full"),  # noqa: RUF001 - widths are what is folded
        ("が", "が"),
        ("한글", "한글"),
    ],
)
def test_case_accents_and_widths_are_folded(text, folded):
    assert fold(text) == folded


def terms(text: str) -> tuple[list[str], list[str]]:
    found = word_terms(split_words(text))
    return (
        [term for each in found for term in each.whole],
        [term for each in found for term in each.parts],
    )


@pytest.mark.parametrize(
    ("text", "whole", "parts"),
    [
        ("ZeroDivisionError", ["zerodivisionerror"], ["zero", "divis", "error"]),
        ("parse_http_request", ["parse_http_request"], ["pars", "http", "request"]),
        ("HTTPServer2", ["httpserver2"], ["http", "server", "2"]),
        ("src/store/index.py", ["src", "store", "index", "py"], []),
        ("__init__", ["init"], []),
        ("Apples", ["appl"], []),
        ("接続が", ["接続", "続が", "が"], []),
        ("API経由", ["api", "経由", "由"], []),
        ("___ -- !", [], []),
    ],
)
def test_names_come_apart_and_scripts_without_spaces_are_cut_in_pairs(text, whole, parts):
    assert terms(text) == (whole, parts)


def test_long_words_are_indexed_in_overlapping_pieces():
    word = "".join(chr(ord("a") + n % 26) for n in range(200))
    (found,) = word_terms([word])
    assert [len(piece) for piece in found.whole] == [64, 64, 64, 64, 64, 40]
    assert all(word[at : at + 32] in " ".join(found.whole) for at in range(168))


def test_a_query_is_its_significant_words_its_phrases_and_its_wording():
    asked = parse_query('What did "The  Gateway" do to us?')
    assert [term.text for term in asked.terms] == ["gatewai"]
    assert asked.phrases == ("the gateway",)
    assert [term.text for term in parse_query("to be or not").terms] == ["to", "be", "or", "not"]
    assert parse_query('" ... "').terms == ()


def test_the_parts_of_a_name_count_less_than_the_name():
    asked = parse_query("parseRequest request")
    assert [(term.text, term.is_whole) for term in asked.terms] == [
        ("parserequest", True),
        ("pars", False),
        ("request", True),
    ]
