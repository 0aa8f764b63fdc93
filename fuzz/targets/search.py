"""Searches: any words are a question, and a pattern runs in bounded work or is refused."""

from __future__ import annotations

from fuzz.cutting import head_and_rest
from treadle.core.errors import SearchRefused
from treadle.store.search.scan import regex_matcher
from treadle.store.search.terms import fold, parse_query

__all__ = ["WORDS", "check"]

WORDS = (
    *(
        b"(",
        b")",
        b"(?:",
        b"(?i)",
        b"(?P<a>",
        b"(?=",
        b"[",
        b"[^",
        b"]",
        b"a-z",
        b"{1,500}",
        b"{9}",
    ),
    *(
        b"*",
        b"+",
        b"?",
        b"|",
        b"^",
        b"$",
        b"\\b",
        b"\\d",
        b"\\W",
        b"\\x41",
        b"\\u00e9",
        b"\\1",
        b".",
    ),
    *(b"****", b"NEAR(", b"AND", b'"', b"words:", b"\xc4\xb0", b"\xe4\xb8\xad", b"\0"),
)


def check(data: bytes) -> None:
    """A pattern of the first half, looked for in the second."""
    size, body = head_and_rest(data)
    pattern, text = (part.decode(errors="replace") for part in (body[: size[0]], body[size[0] :]))
    assert all(term.match.startswith('"') for term in parse_query(pattern).terms)
    try:
        matcher = regex_matcher(pattern)
    except SearchRefused:
        return
    found = matcher.find(text)
    assert found is None or 0 <= found <= len(text)
    if found is not None:
        assert all(fold(literal) in fold(text) for literal in matcher.literals)
