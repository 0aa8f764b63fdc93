from __future__ import annotations

import re

import pytest

from treadle.core.patterns import regex


def test_a_pattern_that_is_compiled_late_does_what_the_usual_one_does():
    late, usual = regex(r"(\w+)@", re.IGNORECASE), re.compile(r"(\w+)@", re.IGNORECASE)
    text = "Ada@here Bob@there"
    assert late.findall(text) == usual.findall(text) == ["Ada", "Bob"]
    assert late.sub("-", text) == usual.sub("-", text)
    assert (late.pattern, late.flags, late.groups) == (usual.pattern, usual.flags, usual.groups)
    assert regex(rb"[a-z]+").fullmatch(b"bytes")


def test_a_pattern_is_compiled_at_its_first_use_and_not_before():
    broken = regex("(")
    with pytest.raises(re.error):
        broken.match("")
