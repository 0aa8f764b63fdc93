"""Tell an answer that is no summary: it says its own prompt again, or says one thing over and over.

Owns how much of either is too much. Invariant: only whole sentences of some length count, so
that a summary may use the words of its task and repeat a name as often as it needs to.
"""

from __future__ import annotations

import functools
import re
from collections import Counter

from .clipping import one_line, sentences

__all__ = ["repeats_itself", "repeats_prompt"]

_LEAST_CHARS = 20
"""A shorter sentence may stand in any text."""
_MOST_TIMES = 2
_FEW_WORDS = 40
_RUN = 4
"""Words in a row that are compared."""
_VARIED = 0.3
"""Less of a text than this may be said for the first time."""
_WORD = re.compile(r"\w+")
_SECTION = re.compile(r"^\w+: ")


def repeats_prompt(text: str, instructions: str) -> bool:
    """Return whether an answer has a sentence of what it was told to do."""
    told = _told(instructions)
    return any(_bare(sentence).startswith(told) for sentence in sentences(text))


def repeats_itself(text: str) -> bool:
    """Return whether a model went round in circles while it wrote a text."""
    said = Counter(_bare(one) for one in sentences(text) if len(one) >= _LEAST_CHARS)
    if any(times > _MOST_TIMES for times in said.values()):
        return True
    words = _WORD.findall(text.casefold())
    runs = [tuple(words[at : at + _RUN]) for at in range(len(words) - _RUN + 1)]
    return len(words) >= _FEW_WORDS and len(set(runs)) < _VARIED * len(runs)


@functools.lru_cache(maxsize=32)
def _told(instructions: str) -> tuple[str, ...]:
    return tuple(one for one in map(_bare, sentences(instructions)) if len(one) >= _LEAST_CHARS)


def _bare(sentence: str) -> str:
    """Return a sentence without its heading, marks and capitals."""
    return _SECTION.sub("", one_line(sentence).strip(" -*#>`:.").casefold())
