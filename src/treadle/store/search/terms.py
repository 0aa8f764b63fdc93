"""Terms: the words of texts and of queries, as the index spells them.

Owns folding (case, accents, widths), stemming, where words begin and end, how identifiers
are split, and how much each word of a query counts. Invariant: a query and a text are
split by the same rules, any text is a legal query, and no part of a query reaches the
full-text table as syntax.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import snowballstemmer

__all__ = [
    "LONGEST_WORD",
    "PIECE_OVERLAP",
    "STOP_WORDS",
    "Term",
    "WordQuery",
    "WordTerms",
    "fold",
    "fold_spaces",
    "is_unspaced",
    "parse_query",
    "quote_term",
    "split_words",
    "stem",
    "word_terms",
]

LONGEST_WORD = 64
"""A longer word is indexed in pieces of this length."""
PIECE_OVERLAP = 32
"""Characters that neighbouring pieces share; a part of a long word is found up to this length."""

_MOST_PIECES = 16
_CACHED_WORDS = 200_000
_WORD = re.compile(r"\w+")
_ACCENT = re.compile("[\u0300-\u036f]")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_SUBWORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_PHRASE = re.compile(r'"([^"]*)"')
_SPACE = re.compile(r"\s+")
_LITTLE = re.compile(
    r"(?<=\w)['\u2019](?:s|t|m|d|ll|re|ve)\b|(?<=\bhow )(?:long|often)\b", re.IGNORECASE
)
"""What is left of a possessive or a contraction, and how one asks for a time: no words to find."""
_PART_WEIGHT = 0.4
"""The weight of a part of an identifier, where the identifier itself has weight 1."""
_MOST_TERMS = 32
_SHORTEST_NEEDLE = 3
"""A shorter prefix stands for too many words."""

_stemmer = snowballstemmer.stemmer("porter")
_stemmer_lock = threading.Lock()  # a stemmer holds the word that it works on

STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are as at be because been before
    being below between both but by can could did do does doing done down during each few for from
    further get give given go got had has have having he her here hers him his how i if in into is
    it its itself just know let like made make many may me might mine more most much must my no nor
    not now of off on once only or other our ours out over own please said same say says she should
    show so some still such tell than that the their theirs them then there these they this those
    through to told too under until up us use used using very want was we were what when where
    which while who whom whose why will with would you your yours
    """.split()  # noqa: SIM905 - a list of words reads as words
)


class WordTerms(NamedTuple):
    """One word of a text, and the terms it is found by."""

    spellings: tuple[str, ...]
    """Folded; empty for a script without spaces."""
    whole: tuple[str, ...]
    """The terms of the word itself."""
    parts: tuple[str, ...] = ()
    """The terms of the parts of an identifier."""


class Term(NamedTuple):
    """One term of a query."""

    text: str
    weight: float
    needle: str
    """The spelling to look for in a text that holds the term."""
    is_prefix: bool = False
    """Whether longer terms that begin with it match, too."""
    part_of: str = ""
    """The identifier it is a part of; the part is used only if no entry holds the identifier."""

    @property
    def match(self) -> str:
        """The term in the query syntax of the full-text table."""
        return quote_term(self.text) + ("*" if self.is_prefix else "")

    @property
    def is_whole(self) -> bool:
        """Whether it is a word of the query, not a part of one."""
        return not self.part_of


class WordQuery(NamedTuple):
    """A parsed query for words."""

    terms: tuple[Term, ...]
    phrases: tuple[str, ...]
    """The quoted phrases: folded, one space between words."""
    sentence: str
    """The whole query in the same form; empty for a single word."""

    @property
    def word_count(self) -> int:
        """The number of words; an identifier counts once."""
        return sum(term.is_whole for term in self.terms)


def fold(text: str) -> str:
    """Return `text` without case, accents and character widths."""
    if text.isascii():
        return text.lower()
    bare = _ACCENT.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", bare).casefold()


def fold_spaces(text: str) -> str:
    """Return `text` folded, with one space between words."""
    return _SPACE.sub(" ", fold(text)).strip()


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return the Porter stem of an English word in lower case, and any other word unchanged."""
    if len(word) < 3 or not (word.isascii() and word.isalpha() and word.islower()):
        return word
    with _stemmer_lock:
        return str(_stemmer.stemWord(word))


def is_unspaced(char: str) -> bool:
    """Return whether a character belongs to a script that puts no spaces between words."""
    return _UNSPACED.match(char) is not None


def split_words(text: str) -> list[str]:
    """Return the words of `text` in their original spelling, in order."""
    if not text.isascii():
        # Fullwidth letters are letters, and an accent may be a character of its own.
        text = unicodedata.normalize("NFKC", text)
    return _WORD.findall(text)


def word_terms(words: Iterable[str]) -> list[WordTerms]:
    """Return the terms of each word."""
    cache = _CACHE
    return [cache[word] for word in words]


class _WordCache(dict[str, WordTerms]):
    """The terms of words seen before; words recur so often that a plain dict is worth it."""

    def __missing__(self, word: str) -> WordTerms:
        if len(self) >= _CACHED_WORDS:
            self.clear()
        terms = self[word] = _split_word(word)
        return terms


_CACHE = _WordCache()


def _split_word(word: str) -> WordTerms:
    bare = word.strip("_")
    if bare.isascii():
        return _spaced_terms(bare)
    found: list[WordTerms] = []
    end = 0
    for run in _UNSPACED.finditer(bare):
        found += (_spaced_terms(bare[end : run.start()]), WordTerms((), _pairs(fold(run[0]))))
        end = run.end()
    found.append(_spaced_terms(bare[end:]))
    return WordTerms(*(tuple(chain.from_iterable(terms)) for terms in zip(*found, strict=True)))


def _spaced_terms(word: str) -> WordTerms:
    """Return the terms of a word of a script that puts spaces between words."""
    word = word.strip("_")
    if not word:
        return WordTerms((), ())
    folded = fold(word)
    if len(folded) > LONGEST_WORD:
        starts = range(0, len(folded) - PIECE_OVERLAP, LONGEST_WORD - PIECE_OVERLAP)
        pieces = tuple(folded[start : start + LONGEST_WORD] for start in starts[:_MOST_PIECES])
        return WordTerms(pieces, pieces)
    return WordTerms((folded,), (stem(folded),), _identifier_parts(word, folded))


def _pairs(run: str) -> tuple[str, ...]:
    """Return the neighbouring characters two by two, and the last one alone."""
    return tuple(run[n : n + 2] for n in range(len(run)))


def _identifier_parts(word: str, folded: str) -> tuple[str, ...]:
    """Return the parts of a camelCase, snake_case or numbered identifier."""
    if word.isalpha() and (word[1:].islower() or word.isupper()):
        return ()
    names = (fold(found[0]) for found in _SUBWORD.finditer(word))
    return tuple(dict.fromkeys(stem(name) for name in names if name != folded))


def quote_term(term: str) -> str:
    """Return a term as a string of the full-text table's query syntax."""
    return '"' + term.replace('"', '""') + '"'


def parse_query(text: str) -> WordQuery:
    """Parse a query; stop words count only when there are no other words."""
    listed = _listed(_LITTLE.sub(" ", text)) or _listed(text)
    significant = [each for each in listed if not STOP_WORDS.issuperset(each.spellings or ("",))]
    terms: dict[str, Term] = {}
    for each in significant or listed:
        for term in _query_terms(each):
            if term.text not in terms or term.weight > terms[term.text].weight:
                terms[term.text] = term
    phrases = tuple(filter(None, map(fold_spaces, _PHRASE.findall(text))))
    sentence = fold_spaces(text.replace('"', ""))
    kept = tuple(terms.values())[:_MOST_TERMS]
    return WordQuery(kept, phrases, sentence if len(kept) > 1 else "")


def _listed(text: str) -> list[WordTerms]:
    return [each for each in word_terms(split_words(text)) if each.whole]


def _query_terms(word: WordTerms) -> list[Term]:
    if not word.spellings:
        # A single character is the beginning of a pair, or the last character of its run.
        pairs = word.whole[:-1] or word.whole
        return [Term(pair, 1.0, pair, is_prefix=len(pair) == 1) for pair in pairs]
    wholes = [
        Term(text, 1.0, _needle(text, word))
        for text in word.whole
        if len(text) > 1 or not is_unspaced(text)
    ]
    parts = [Term(part, _PART_WEIGHT, part, part_of=word.whole[0]) for part in word.parts]
    return [*wholes, *parts]


def _needle(term: str, word: WordTerms) -> str:
    """Return the prefix that the forms of a word share with its term."""
    common, spelling = max((_common_length(each, term), each) for each in word.spellings)
    if common >= _SHORTEST_NEEDLE:
        return spelling[:common]
    return spelling if common else term


def _common_length(one: str, other: str) -> int:
    """Return the length of the longest common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
