"""Questions: what a person typed, as terms to look for.

Owns stop-words, quoted phrases and how much each term counts. Invariant: any text is a
legal question, and nothing of it reaches the full-text table as syntax.
"""

from __future__ import annotations

from typing import NamedTuple

from ...core.patterns import regex
from .terms import STOP_WORDS, Token, fold, is_unspaced, tokens, words_of

__all__ = ["Question", "Term", "one_spaced", "question_of", "quoted"]

_PHRASE = regex(r'"([^"]*)"')
_SPACE = regex(r"\s+")
_PART_WEIGHT = 0.4
"""What a part of a name counts beside the name."""
_MOST_TERMS = 32
_SHORTEST = 3
"""A shorter beginning stands for too many words."""


class Term(NamedTuple):
    """One thing to look for."""

    text: str
    weight: float
    needle: str
    """How a text that holds the term is spelt at that place."""
    open: bool = False
    """Whether longer terms that begin with it count, too."""
    part_of: str = ""
    """The name it is a part of; looked for only where that name is unknown."""

    @property
    def match(self) -> str:
        """The term as the full-text table is asked for it."""
        return quoted(self.text) + ("*" if self.open else "")

    @property
    def whole(self) -> bool:
        """Whether it is a word of the question, not a part of one."""
        return not self.part_of


class Question(NamedTuple):
    """What to look for."""

    terms: tuple[Term, ...]
    phrases: tuple[str, ...]
    """Folded, one space between words."""
    sentence: str
    """All of it, in the same form; empty for a single word."""

    @property
    def words(self) -> int:
        """How many words it asks for, names counted once."""
        return sum(term.whole for term in self.terms)


def quoted(term: str) -> str:
    """A term in the syntax of the full-text table."""
    return '"' + term.replace('"', '""') + '"'


def question_of(text: str) -> Question:
    """What `text` asks for; words that say nothing count only when there are no others."""
    listed = [each for each in tokens(words_of(text)) if each.whole]
    telling = [each for each in listed if not STOP_WORDS.issuperset(each.spellings or ("",))]
    terms: dict[str, Term] = {}
    for each in telling or listed:
        for term in _terms(each):
            if term.text not in terms or term.weight > terms[term.text].weight:
                terms[term.text] = term
    phrases = tuple(filter(None, map(one_spaced, _PHRASE.findall(text))))
    sentence = one_spaced(text.replace('"', ""))
    kept = tuple(terms.values())[:_MOST_TERMS]
    return Question(kept, phrases, sentence if len(kept) > 1 else "")


def one_spaced(text: str) -> str:
    """`text` folded, with one space between its words."""
    return _SPACE.sub(" ", fold(text)).strip()


def _terms(word: Token) -> list[Term]:
    if not word.spellings:
        # A character that stands alone begins the pairs it is in, or is the last of its run.
        pairs = word.whole[:-1] or word.whole
        return [Term(pair, 1.0, pair, open=len(pair) == 1) for pair in pairs]
    wholes = [Term(text, 1.0, _needle(text, word)) for text in word.whole if _asked(text)]
    parts = [Term(part, _PART_WEIGHT, part, part_of=word.whole[0]) for part in word.parts]
    return [*wholes, *parts]


def _asked(term: str) -> bool:
    return len(term) > 1 or not is_unspaced(term)


def _needle(term: str, word: Token) -> str:
    """What the forms of a word have in common with it."""
    common, spelling = max((_common(each, term), each) for each in word.spellings)
    if common >= _SHORTEST:
        return spelling[:common]
    return spelling if common else term


def _common(one: str, other: str) -> int:
    """How many characters two words begin with together."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
