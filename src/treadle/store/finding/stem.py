"""Stems: one spelling for the forms of an English word.

Owns Porter's algorithm of 1980: suffixes fall in five steps, and a suffix falls only
where enough of a word stays. Invariant: words that are not plain lower-case ASCII
letters come back as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from ...core.patterns import regex

__all__ = ["stem"]

_CONSONANT = "[^aeiou]"
_VOWEL = "[aeiouy]"
_CONSONANTS = f"{_CONSONANT}[^aeiouy]*"
_VOWELS = f"{_VOWEL}[aeiou]*"

_ONCE = regex(f"(?:{_CONSONANTS})?{_VOWELS}{_CONSONANTS}")
"""A vowel and a consonant after it: the measure is one at least."""
_ONLY_ONCE = regex(f"(?:{_CONSONANTS})?{_VOWELS}{_CONSONANTS}(?:{_VOWELS})?$")
_TWICE = regex(f"(?:{_CONSONANTS})?(?:{_VOWELS}{_CONSONANTS}){{2}}")
_HAS_VOWEL = regex(f"(?:{_CONSONANTS})?{_VOWEL}")
_SHORT = regex(f"{_CONSONANTS}{_VOWEL}[^aeiouwxy]$")
_DOUBLE = regex(r"([^aeiouylsz])\1$")

_SECOND = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("abli", "able"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
)
_THIRD = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)
_FOURTH = regex(
    "(?:al|ance|ence|er|ic|able|ible|ant|ement|ment|ent|ou|ism|ate|iti|ous|ive|ize|(?<=[st])ion)$"
)


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The stem of `word`."""
    if len(word) < 3 or not (word.isascii() and word.isalpha() and word.islower()):
        return word
    # A `y` at the beginning is a consonant.
    marked = "Y" + word[1:] if word[0] == "y" else word
    marked = _without_endings(_without_plural(marked))
    if marked.endswith("y") and _HAS_VOWEL.match(marked[:-1]):
        marked = marked[:-1] + "i"
    marked = _replaced(_replaced(marked, _SECOND), _THIRD)
    return _tidied(_without_suffix(marked)).lower()


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_endings(word: str) -> str:
    """The word without -eed, -ed or -ing."""
    if word.endswith("eed"):
        return word[:-1] if _ONCE.match(word[:-3]) else word
    for ending in ("ed", "ing"):
        if word.endswith(ending) and _HAS_VOWEL.match(word[: -len(ending)]):
            return _mended(word[: -len(ending)])
    return word


def _mended(word: str) -> str:
    """What -ed and -ing leave, as the word is written without them."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if _DOUBLE.search(word):
        return word[:-1]
    return word + "e" if _SHORT.match(word) else word


def _replaced(word: str, suffixes: Iterable[tuple[str, str]]) -> str:
    for suffix, shorter in suffixes:
        if word.endswith(suffix):
            start = word[: -len(suffix)]
            return start + shorter if _ONCE.match(start) else word
    return word


def _without_suffix(word: str) -> str:
    found = _FOURTH.search(word)
    return word[: found.start()] if found and _TWICE.match(word[: found.start()]) else word


def _tidied(word: str) -> str:
    """The word without a last -e or a doubled -l that its stem does not need."""
    if word.endswith("e"):
        start = word[:-1]
        if _TWICE.match(start) or (
            _ONCE.match(start) and not (_ONLY_ONCE.match(start) and _SHORT.match(start))
        ):
            word = start
    return word[:-1] if word.endswith("ll") and _TWICE.match(word) else word
