"""Searches: any words are a question, and a pattern runs in bounded work or is refused."""

from __future__ import annotations

from contextlib import suppress

from fuzz.cutting import head_and_rest
from treadle.core.errors import SearchRefused
from treadle.store.finding.automaton import Automaton, Work, WorkSpent
from treadle.store.finding.literals import literals_of
from treadle.store.finding.pattern import parsed
from treadle.store.finding.question import question_of

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
_MOST_WORK = 200_000


def check(data: bytes) -> None:
    """A pattern of the first half, looked for in the second."""
    size, body = head_and_rest(data)
    pattern, text = (part.decode(errors="replace") for part in (body[: size[0]], body[size[0] :]))
    assert all(term.match.startswith('"') for term in question_of(pattern).terms)
    with suppress(SearchRefused, WorkSpent):
        tree = parsed(pattern)
        found = Automaton(tree).search(text, Work(_MOST_WORK))
        assert found is None or 0 <= found <= len(text)
        if found is not None and not tree.ignores_case:
            assert all(literal in text for literal in literals_of(tree.tree))
