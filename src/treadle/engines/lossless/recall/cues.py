"""Cues: what an input names that may have been spoken of before.

Owns when an input is worth looking up, and when an entry speaks of the same. Pure.
Invariant: small talk is no cue, and an entry that shares one everyday word with the
input is not recalled.
"""

from __future__ import annotations

from msgspec import Struct

from ....core.patterns import regex
from ....store.search.terms import STOP_WORDS, fold, is_unspaced, stem

__all__ = ["Cue", "cue_of"]

_LONGEST = 2_000
_NAME = regex(r"[\w~-]*(?:[_./:#]|\d|(?<=[a-z])[A-Z])[\w./:#-]*\w|[A-Z]{2,}\w*")
_WORD = regex(r"\w+")
_SHORT = 3
"""Words up to this length tell nothing by themselves."""
_SHARED = 2
"""How many words an entry must share with an input that names nothing."""


class Cue(Struct, frozen=True):
    """What to look for."""

    text: str
    names: frozenset[str]
    """Identifiers, paths, numbers; one of them is enough."""
    words: frozenset[str]
    """Stems of other words that tell something; it takes two."""

    def speaks_of(self, text: str) -> bool:
        """Whether `text` is about the same, and more than the same words again."""
        folded = fold(text).strip()
        if folded == fold(self.text).strip():
            return False
        if any(name in folded for name in self.names):
            return True
        return len(self.words & _stems(text)) >= _SHARED


def cue_of(prompt: str) -> Cue | None:
    """What an input names; None for one that names nothing."""
    text = prompt[:_LONGEST]
    names = frozenset(fold(found) for found in _NAME.findall(text) if len(found) > 2)
    words = _stems(text)
    return Cue(text, names, words) if names or len(words) >= _SHARED else None


def _stems(text: str) -> frozenset[str]:
    """What the words that tell something have in common with their other forms."""
    words = (word for word in _WORD.findall(fold(text)) if word not in STOP_WORDS)
    return frozenset(part for word in words for part in _parts(word))


def _parts(word: str) -> list[str]:
    """A word's stem; where words have no spaces between them, its characters two by two."""
    if any(map(is_unspaced, word)):
        return [word[at : at + 2] for at in range(len(word) - 1)]
    return [stem(word)] if len(word) > _SHORT else []
