from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from treadle.core.errors import SearchRefused
from treadle.store.finding.automaton import Automaton, Work, WorkSpent
from treadle.store.finding.literals import literals_of
from treadle.store.finding.pattern import parsed

ENOUGH = 10_000_000


def found(pattern: str, text: str) -> int | None:
    return Automaton(parsed(pattern)).search(text, Work(ENOUGH))


def first_end(pattern: str, text: str) -> int | None:
    """Where the match that ends first ends, by the standard library."""
    compiled = re.compile(pattern)
    ends = (
        end
        for end in range(len(text) + 1)
        for start in range(end + 1)
        if compiled.fullmatch(text, start, end)
    )
    return next(ends, None)


atoms = st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\d", r"\w", "(?:ab|b)", "(a|)", "1"])
repeats = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "{,2}", "*?"])
pieces = st.builds("{}{}".format, atoms, repeats)
patterns = st.lists(pieces, min_size=1, max_size=5).map("".join)


@settings(max_examples=400, deadline=None)
@given(patterns, st.text("ab1 \n", max_size=8))
def test_the_automaton_agrees_with_the_standard_library(pattern, text):
    assert found(pattern, text) == first_end(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "end"),
    [
        ("^b", "a\nb", 3),
        ("a$", "a\nb", 1),
        (r"\bcat\b", "concat cat", 10),
        (r"\Bcat", "cat concat", 10),
        ("(?i)straße", "STRAßE", 6),
        ("(?P<name>x)y", "axy", 3),
        ("[]-]", "a-", 2),
        ("[^]]", "]a", 2),
        (r"[\w.]+@[a-z]+", "to a.b@c", 8),
        (r"\x41\u0042", "AB", 2),
        ("{", "a{", 2),
        ("a{x}", "a{x}", 4),
        ("", "abc", 0),
        ("x|yz", "ayz", 3),
    ],
)
def test_the_usual_syntax_is_known(pattern, text, end):
    assert found(pattern, text) == end


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*c", "(a|aa)+b", "(.*)*x", "(a?){30}a{30}c", ".*.*.*.*.*=.*"],
)
def test_no_pattern_blows_up(pattern):
    text = "a" * 50_000 + "!"
    assert Automaton(parsed(pattern)).search(text, Work(ENOUGH)) is None


def test_work_that_is_spent_is_told():
    with pytest.raises(WorkSpent):
        Automaton(parsed("a")).search("b" * 100, Work(50))
    with pytest.raises(WorkSpent):
        Automaton(parsed("(a|b|c|d){200}e")).search("abcd" * 100, Work(2_000))


def test_a_machine_that_forgets_still_finds():
    many = "".join(chr(ord("a") + n * n % 17) for n in range(6_000))
    pattern = "q[a-q]{12}z"
    machine = Automaton(parsed(pattern))
    for text in (f"{many}z", f"{many}q{'a' * 12}z{many}"):
        expected = re.search(pattern, text)
        assert machine.search(text, Work(10**9)) == (expected.end() if expected else None)


def test_what_cannot_be_searched_for_is_refused_with_a_reason():
    refused = [
        "(",
        ")",
        "a**b{3,2}",
        "*",
        "(?=a)",
        "(?<!a)b",
        r"(a)\1",
        r"\q",
        "a++",
        "[a",
        "[b-a]",
    ]
    refused += ["a{501}", "(?x:a)", "a" * 501, "(" * 41 + ")" * 41, "\\", "(a{100}){100}"]
    said = []
    for pattern in refused:
        with pytest.raises(SearchRefused) as error:
            Automaton(parsed(pattern))
        said.append(str(error.value).removeprefix(f"the regular expression {pattern[:80]!r} "))
    assert said == snapshot(
        [
            "has a '(' that is not closed",
            "has a ')' too many",
            "repeats {3,2} times; say at most 500, the smaller first",
            "has a '*' with nothing to repeat; escape it to mean itself",
            "looks ahead or behind, which is not known here; search for less",
            "looks ahead or behind, which is not known here; search for less",
            "refers back to a group, which is not known here; write the text again",
            "has an escape \\q that is not known here",
            "has a possessive repeat, which is not known here; drop its '+'",
            "ends too early; close what it opens, or escape a last backslash",
            "has a range from 'b' that does not end after it",
            "repeats {501} times; say at most 500, the smaller first",
            "has a kind of group that is not known here; use '(?:…)' or '(…)'",
            "has more than 500 characters; search for a part of it",
            "nests more than 40 groups",
            "ends too early; close what it opens, or escape a last backslash",
            "the regular expression repeats too much; ask for fewer times",
        ]
    )


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        (r"Errno \d+\] Conn", ["Errno ", "] Conn"]),
        ("(foo)+bar?z", ["foo", "ba", "z"]),
        ("foo|bar", []),
        (r"^\bwhole\b$", ["whole"]),
        ("a(?:b(?:cd)e)", ["a", "b", "cd", "e"]),
        ("(?:xy)?z", ["z"]),
    ],
)
def test_literal_parts_are_known(pattern, literals):
    assert literals_of(parsed(pattern).tree) == literals


@settings(max_examples=200, deadline=None)
@given(patterns, st.text("ab1 \n", max_size=8))
def test_whatever_matches_holds_the_literals(pattern, text):
    match = re.search(pattern, text)
    if match:
        assert all(literal in match[0] for literal in literals_of(parsed(pattern).tree))
