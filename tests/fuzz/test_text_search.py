from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import treadle as treadle  # noqa: PLC0414 - a fixture
from tests.cli.terminal import Treadle
from treadle.cli.batch import LONGEST_LINE
from treadle.core.errors import SearchRefused
from treadle.store.search.scan import LONGEST_PATTERN, regex_matcher

PIECES = st.sampled_from(
    [
        "a",
        "b",
        "(",
        ")",
        "(?:",
        "|",
        "*",
        "+",
        "?",
        "{2}",
        "{0,3}",
        "[ab]",
        "[^a]",
        ".",
        "^",
        "$",
        "\\b",
    ]
)
patterns = st.lists(PIECES, max_size=12).map("".join)


@given(patterns, st.text("ab\n ", max_size=20))
def test_a_pattern_finds_what_python_finds(pattern: str, text: str):
    try:
        matcher = regex_matcher(pattern)
    except SearchRefused:
        return
    try:
        oracle = re.compile(pattern, re.MULTILINE)
    except re.error:  # such as a repeat of a repeat
        return
    assert (matcher.find(text) is None) == (oracle.search(text) is None)


@pytest.mark.parametrize(
    "pattern",
    [
        "a" + "*" * (LONGEST_PATTERN - 1),
        "(" * 200,
        "a" * (LONGEST_PATTERN + 1),
        "(a{500}){500}",
        "a{99999999}",
        "[" * 100,
        "(?=a)",
        "\\1",
    ],
)
def test_a_pattern_beyond_its_limits_is_refused(pattern: str):
    with pytest.raises(SearchRefused, match="the regular expression"):
        regex_matcher(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a*)*b", "(.*)*x", "(a?){40}a{40}"])
def test_a_catastrophe_of_others_is_found_or_not_without_trying_all_ways(pattern: str):
    text = "a" * 20_000 + "!"
    assert (regex_matcher(pattern).find(text) is None) == (pattern[-1] in "$bx")


def test_groups_within_groups_are_found_up_to_the_limit():
    depth = (LONGEST_PATTERN - 1) // 5
    assert regex_matcher("(?:" * depth + "a" + "*)" * depth).find("aaa") == 0


def test_every_line_of_a_batch_is_answered_whatever_it_holds(treadle: Treadle):
    treadle("new", "--title", "x")
    lines = [
        b"[" * 100_000,
        b'{"query": "\xff"}',
        b'{"query": "' + b"a" * LONGEST_LINE + b'"}',
        b'{"id": 7, "query": "a(", "mode": "regex"}',
        b'{"id": 8, "query": "\\"NEAR( OR words:* -"}',
        b'{"id": 9, "query": "' + b"(a+)+" * 50 + b'$", "mode": "regex"}',
    ]
    told = treadle("recall", "--batch", stdin=b"\n".join(lines) + b"\n").out
    answers = [json.loads(line) for line in told.splitlines()]
    assert [(each["id"], "error" in each) for each in answers] == [
        (None, True),
        (None, True),
        (None, True),
        (7, True),
        (8, False),
        (9, False),
    ]
