"""Find numbers that say something: a port, a limit, a count, with the words that name them.

Owns which numbers of a text are told with what they measure. Invariant: a number without a word
beside it is no fact, because nobody could tell what it counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from ....store.search.terms import STOP_WORDS, fold, is_unspaced, stem

__all__ = [
    "SETTING",
    "content_words",
    "numbers_in",
    "phrases_with_numbers",
    "plain_number",
    "settings_in",
]

SETTING = " = "
"""Stands between the name of a setting and its value."""

_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.#/\\-])[$€£~]?\d+(?:[.,:/-]\d+)*"
    r"(?:%| ?(?:ms|us|s|min|h|d|[kKMGT]i?B|[kKMG]|B|px|x)\b)?(?![A-Za-z0-9_/\\-])"
)
_TOKEN = re.compile(r"(?<!\w)[^\W\d_][\w'-]*(?:[_.][\w]+)*")
_BREAK = re.compile(r"[][,;()\uff0c\u3001](?!\d)| and ")
_BEFORE, _AFTER = 48, 40
_MOST_WORDS = 2
_UNSPACED_CHARS = 4
_LIST_MARK = re.compile(r"\s*(?:[-*]\s*)?\d+[.)]\s")
_SETTING = re.compile(
    r"""^[\s"'+-]*([A-Za-z][\w.-]{2,40})["']?\s*(?:=|:)\s*["']?(-?[\d][\w.,:%-]{0,20})["']?,?\s*$""",
    re.MULTILINE,
)
_WORD_SETTING = re.compile(
    r"""^[\s"'+-]*([A-Za-z][\w.-]{2,40})["']?\s*(?:=|:)\s*["']?([A-Za-z][\w./@:-]{1,60})["']?,?\s*$""",
    re.MULTILINE,
)
_OUTCOME = re.compile(r"\b\d+ (?:passed|failed|errors?|skipped|warnings?)\b")
_PARTS = re.compile(r"[^\W_]+")
_MOST_SETTINGS = 6


def phrases_with_numbers(sentence: str) -> Iterator[str]:
    """Yield the parts of a sentence that name a number: ``listens on port 8843``."""
    mark = _LIST_MARK.match(sentence)
    for found in _NUMBER.finditer(sentence, mark.end() if mark else 0):
        start, end = _start_of_phrase(sentence, found.start()), found.end()
        if start == found.start():
            end = _end_of_phrase(sentence, end)
        if (start, end) != found.span():
            yield sentence[start:end].strip()


def settings_in(text: str, *, words: bool = False) -> Iterator[str]:
    """Yield the first few settings and counts that an output shows: ``MAX_RETRIES = 7``.

    With `words`, those that are no numbers count too.
    """
    pairs = [*_SETTING.findall(text), *(_WORD_SETTING.findall(text) if words else ())]
    found = [f"{name}{SETTING}{value.rstrip(',')}" for name, value in pairs]
    yield from dict.fromkeys((*found[:_MOST_SETTINGS], *_OUTCOME.findall(text)[-3:]))


def numbers_in(text: str) -> frozenset[str]:
    """Return the numbers of a text as `plain_number` writes them."""
    return frozenset(plain_number(number) for number in _NUMBER.findall(text))


def plain_number(number: str) -> str:
    """Return a number without signs, units and separators of thousands."""
    bare = re.sub(r"[^\d.,:/-]", "", number).strip(".,:/-")
    return re.sub(r",(?=\d{3}(?:\D|$))", "", bare)


def content_words(text: str) -> frozenset[str]:
    """Return the stems of the words that say something; two by two where none has spaces."""
    words: set[str] = set()
    for word in _PARTS.findall(fold(text)):
        for is_pairs, chars in groupby(word, is_unspaced):
            part = "".join(chars)
            if is_pairs:
                words |= {part[at : at + 2] for at in range(len(part) - 1)}
            elif len(part) > 1 and not part.isdigit() and part not in STOP_WORDS:
                words.add(stem(part))
    return frozenset(words)


def _start_of_phrase(sentence: str, at: int) -> int:
    """Return where the words begin that name a number; the number's place if there are none."""
    before = sentence[max(0, at - _BEFORE) : at]
    begin = max((cut.end() for cut in _BREAK.finditer(before)), default=0)
    telling = [word for word in _TOKEN.finditer(before, begin) if _is_telling(word[0])]
    if not telling:
        return at
    first = telling[-_MOST_WORDS:][0]
    start = at - len(before) + first.start()
    return max(start, at - _UNSPACED_CHARS) if any(map(is_unspaced, first[0])) else start


def _end_of_phrase(sentence: str, at: int) -> int:
    """Return where the words after a number end that say what it measures, if any do."""
    after = sentence[at : at + _AFTER]
    if after.startswith(":"):
        return at  # it numbers what follows
    telling = [word for word in _TOKEN.finditer(after) if _is_telling(word[0])][:_MOST_WORDS]
    whole = [word for word in telling if word.end() < len(after) or len(after) < _AFTER]
    if not whole:
        return at
    last = whole[0] if not after[: whole[0].start()].strip(" -") else whole[-1]
    end = at + last.end()
    return min(end, at + _UNSPACED_CHARS) if any(map(is_unspaced, last[0])) else end


def _is_telling(word: str) -> bool:
    return len(word) > 1 and fold(word) not in STOP_WORDS
