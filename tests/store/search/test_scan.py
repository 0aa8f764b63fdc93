from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from treadle.core.errors import SearchRefused
from treadle.store.search.scan import regex_matcher


def found(pattern: str, text: str) -> int | None:
    return regex_matcher(pattern).find(text)


atoms = st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\d", r"\w", "(?:ab|b)", "(a|)", "1"])
repeats = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "{0,2}", "*?"])
pieces = st.builds("{}{}".format, atoms, repeats)
patterns = st.lists(pieces, min_size=1, max_size=5).map("".join)


@settings(max_examples=400, deadline=None)
@given(patterns, st.text("ab1 \n", max_size=8))
def test_patterns_find_what_the_standard_library_finds(pattern, text):
    match = re.search(pattern, text, re.MULTILINE)
    assert found(pattern, text) == (match and match.start())


@pytest.mark.parametrize(
    ("pattern", "text", "start"),
    [
        ("^b", "a\nb", 2),
        ("a$", "a\nb", 0),
        (r"\bcat\b", "concat cat", 7),
        (r"\Bcat", "cat concat", 7),
        ("(?i)straße", "in der STRAßE", 7),
        ("(?P<name>x)y", "axy", 1),
        ("(?<name>x)y", "axy", 1),
        ("[]-]", "a-", 1),
        ("[^]]", "]a", 1),
        (r"[\w.]+@[a-z]+", "to a.b@c", 3),
        (r"\x41\x{42}", "AB", 0),
        (r"\pL+", "1 接続", 2),
        (r"\Qa.b\E", "axb a.b", 4),
        ("{", "a{", 1),
        ("a{x}", "a{x}", 0),
        ("a{,2}", "aa a{,2}", 3),
        ("", "abc", 0),
        ("x|yz", "ayz", 1),
        ("接", "データ接続", 3),
    ],
)
def test_the_usual_syntax_is_known(pattern, text, start):
    assert found(pattern, text) == start


def test_classes_stand_for_ascii_characters():
    assert [found(pattern, "é٣\u00a0") for pattern in (r"\w", r"\d", r"\s")] == [None] * 3
    assert found(r"\pL", "é") == 0


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*c", "(a|aa)+b", "(.*)*x", "(a?){30}a{30}c", ".*.*.*.*.*=.*"],
)
def test_no_pattern_blows_up(pattern):
    assert found(pattern, "a" * 50_000 + "!") is None


def test_a_pattern_costs_more_the_longer_it_is_when_compiled():
    costs = [regex_matcher(pattern).cost for pattern in ("a", "(a|b){50}c", "(a|b){500}c")]
    assert costs == [1, 2, 16]


def test_a_pattern_of_many_states_still_finds():
    many = "".join(chr(ord("a") + n * n % 17) for n in range(6_000))
    pattern = "q[a-q]{12}z"
    for text in (f"{many}z", f"{many}q{'a' * 12}z{many}"):
        expected = re.search(pattern, text)
        assert found(pattern, text) == (expected.start() if expected else None)


def test_what_cannot_be_searched_for_is_refused_with_a_reason():
    refused = [
        "(",
        ")",
        "a**b{3,2}",
        "a{3,2}",
        "*",
        "(?=a)",
        "(?<!a)b",
        r"(a)\1",
        r"\q",
        r"\Z",
        r"\u0042",
        "a++",
        "[a",
        "[b-a]",
        r"\p{Klingon}",
        "a{1001}",
        "(?x:a)",
        "(?P<a b>c)",
        "a" * 501,
        "\\",
        "(a{100}){100}",
        r"(?:\pL{30}){30}",
        "\ud800",
    ]
    reasons = []
    for pattern in refused:
        with pytest.raises(SearchRefused) as error:
            regex_matcher(pattern)
        reasons.append(str(error.value).removeprefix(f"the regular expression {pattern[:80]!r} "))
    assert reasons == snapshot(
        [
            "has a '(' that is not closed",
            "has a ')' too many",
            "repeats a repeat ('**'); put the first in a group, or drop one",
            "repeats {3,2} times; repeat at most 1,000 times in all, the smaller number first",
            "has a '*' with nothing to repeat; escape it to mean itself",
            "looks ahead or behind, which is not known here; search for less",
            "looks ahead or behind, which is not known here; search for less",
            "refers back to a group, which is not known here; write the text again",
            "has an escape \\q that is not known here",
            "has an escape \\Z that is not known here; use \\z",
            "has an escape \\u that is not known here; use \\x{…} with the same digits",
            "repeats a repeat ('++'); put the first in a group, or drop one",
            "has a '[' that is not closed",
            "has a range or class 'b-a' that does not exist",
            "has a range or class '\\\\p{Klingon}' that does not exist",
            "repeats {1001} times; repeat at most 1,000 times in all, the smaller number first",
            "has a kind of group that is not known here; use '(?:…)' or '(…)'",
            "has a group '(?P<a b>'; use letters, digits and '_' in its name",
            "has more than 500 characters; search for a part of it",
            "ends with a backslash; write two to mean one",
            "repeats {100} times; repeat at most 1,000 times in all, the smaller number first",
            "is too large when compiled; repeat less",
            "holds half a character; write it again",
        ]
    )
