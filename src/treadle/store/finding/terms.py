"""Terms: the words of a text as the index spells them.

Owns folding (case, accents, widths), where words begin and end, how identifiers come
apart and how scripts without spaces are cut. Invariant: a question and a text are cut
by the same rules, so that what was said can be asked for.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from ...core.patterns import regex
from .stem import stem

__all__ = ["LONGEST", "OVERLAP", "STOP_WORDS", "Token", "fold", "is_unspaced", "tokens", "words_of"]

LONGEST = 64
"""A longer word is indexed in pieces of this length."""
OVERLAP = 32
"""What neighbouring pieces share; a part of a long word is found up to this length."""

_PIECES = 16
_REMEMBERED = 200_000
_WORD = regex(r"\w+")
_ACCENT = regex("[\u0300-\u036f]")
_UNSPACED = regex(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_SUBWORD = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")

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


class Token(NamedTuple):
    """A word as it stands in a text, and what it is found by."""

    spellings: tuple[str, ...]
    """Folded; none for what a script without spaces wrote."""
    whole: tuple[str, ...]
    """The terms of the word itself."""
    parts: tuple[str, ...] = ()
    """The terms of what its name is made of."""


def fold(text: str) -> str:
    """`text` without its case, accents and widths."""
    if text.isascii():
        return text.lower()
    bare = _ACCENT.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", bare).casefold()


def words_of(text: str) -> list[str]:
    """The words of `text` as they are spelt, in order."""
    if not text.isascii():
        # Fullwidth letters are letters, and letters may come with their accents apart.
        text = unicodedata.normalize("NFKC", text)
    return _WORD.findall(text)


def is_unspaced(char: str) -> bool:
    """Whether a character belongs to a script that puts no spaces between words."""
    return _UNSPACED.match(char) is not None


class _Tokens(dict[str, Token]):
    """Words that were cut before. They recur so often that even looking them up counts."""

    def __missing__(self, word: str) -> Token:
        if len(self) >= _REMEMBERED:
            self.clear()
        made = self[word] = _cut(word)
        return made


_TOKENS = _Tokens()


def tokens(words: Iterable[str]) -> list[Token]:
    """The terms of each word."""
    known = _TOKENS
    return [known[word] for word in words]


def _cut(word: str) -> Token:
    bare = word.strip("_")
    if bare.isascii():
        return _spaced(bare)
    found: list[Token] = []
    end = 0
    for run in _UNSPACED.finditer(bare):
        found += (_spaced(bare[end : run.start()]), Token((), _pairs(fold(run[0])), ()))
        end = run.end()
    found.append(_spaced(bare[end:]))
    return Token(*(tuple(chain.from_iterable(terms)) for terms in zip(*found, strict=True)))


def _spaced(word: str) -> Token:
    """A word of a script that puts spaces between words."""
    word = word.strip("_")
    if not word:
        return Token((), (), ())
    folded = fold(word)
    if len(folded) > LONGEST:
        windows = _windows(folded)
        return Token(windows, windows, ())
    return Token((folded,), (stem(folded),), _subwords(word, folded))


def _windows(word: str) -> tuple[str, ...]:
    starts = range(0, len(word) - OVERLAP, LONGEST - OVERLAP)[:_PIECES]
    return tuple(word[start : start + LONGEST] for start in starts)


def _pairs(run: str) -> tuple[str, ...]:
    """Neighbouring characters two by two, and the last one: each begins a term."""
    return tuple(run[n : n + 2] for n in range(len(run)))


def _subwords(word: str, folded: str) -> tuple[str, ...]:
    """What a camelCase, snake_case or numbered name is made of."""
    if word.isalpha() and (word[1:].islower() or word.isupper()):
        return ()
    names = (fold(found[0]) for found in _SUBWORD.finditer(word))
    return tuple(dict.fromkeys(stem(name) for name in names if name != folded))
