from __future__ import annotations

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.store.search.literals import regex_literals


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        (r"Errno \d+\] Conn", ["Errno ", "] Conn"]),
        ("(foo)+bar?z", ["foo", "ba", "z"]),
        ("foo|bar", []),
        ("a(?:foo|bar)b", ["a", "b"]),
        (r"^\bwhole\b$", ["whole"]),
        ("a(?:b(?:cd)e)", ["a", "b", "cd", "e"]),
        ("(?:xy)?z", ["z"]),
        ("(?:xy){0,3}z", ["z"]),
        ("ab{2,}c", ["ab", "c"]),
        ("ab{0}c", ["a", "c"]),
        (r"\Qa.b\E*c", ["a.", "c"]),
        ("[[:alpha:]]x[]a]y[^]b]z", ["x", "y", "z"]),
        (r"(?i)One(?P<two>Two)(?s:Three)", ["One", "Two", "Three"]),
        (r"\pLx\p{Greek}y\x41z\x{42}", ["x", "y", "z"]),
        ("a{,2}", ["a{,2}"]),
        ("((a)?b)?", []),
    ],
)
def test_literal_parts_are_known(pattern, literals):
    assert regex_literals(pattern) == literals


ATOMS = r"a b 1 ab [ab] [^a] []a] [[:alpha:]] . \d \w \+ \pL (?:ab|b) (a|) (?P<n>ab) (?:a(b)?)"
ESCAPES = r"\Qab\E \x61 \x{62} ^ $ \b"
atoms = st.sampled_from([*ATOMS.split(), *ESCAPES.split()])
repeats = st.sampled_from(["", *["*", "+", "?", "{2}", "{1,2}", "{0,2}", "{0}", "*?", "{,2}", "|"]])
pieces = st.builds("{}{}".format, atoms, repeats)
patterns = st.lists(pieces, min_size=1, max_size=6).map("".join)


@settings(max_examples=600, deadline=None)
@given(patterns, st.text("ab1+ \n{,2}", max_size=8))
def test_whatever_matches_holds_the_literals(pattern, text):
    match = re2.search(pattern, text)
    if match:
        assert all(literal in match[0] for literal in regex_literals(pattern))
