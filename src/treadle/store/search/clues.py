"""Clues: what a question asks for besides its words, and the factors they give a text.

Owns which questions ask for a time, a number or a speaker, and what shows that a text has
them. Invariant: a clue only orders what words found; a query that is no question has none
but those about its speaker.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .terms import fold
from .weights import RankWeights

__all__ = ["Clues", "asks_something", "only_asks", "parse_clues", "speaker_prefix"]

_ASKS_TIME = re.compile(
    r"\b(?:when|what (?:day|date|time|year|month|week)|which (?:day|date|year|month|week)|"
    r"since when|how long ago|until when|by when)\b"
)
_ASKS_NUMBER = re.compile(
    r"\b(?:how (?:many|much|often|long|old|far|large|big|high|fast|tall)|"
    r"(?:what|which) (?:number|port|version|size|limit|timeout|price|amount|percentage|code))\b"
)
_TIME = re.compile(
    r"\b(?:\d{1,2}[:.]\d{2}|\d{4}-\d{2}-\d{2}|(?:19|20)\d{2}|\d{1,2}(?:st|nd|rd|th)|o'clock|noon|"
    r"midnight|today|tonight|tomorrow|yesterday|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|"
    r"january|february|march|april|june|july|august|september|october|november|december|"
    r"(?:last|next|this|past|coming) (?:day|week|weekend|month|year|spring|summer|autumn|fall|"
    r"winter|night|morning|evening)|(?:days?|weeks?|weekends?|months?|years?|hours?|minutes?) ago|"
    r"(?:in|by|before|after|until|at) (?:may|spring|summer|autumn|winter|christmas|easter))\b"
)
_NUMBER = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|"
    r"fifty|sixty|seventy|eighty|ninety|hundreds?|thousands?|millions?|once|twice|thrice|half|"
    r"dozens?)\b"
)
_ASKS = re.compile(
    r"[?\uff1f]|^\s*(?:who|whom|whose|what|which|when|where|why|how|is|are|was|were|do|does|did|has|"
    r"have|had|can|could|will|would|should)\b"
)
_OWN_WORDS = re.compile(
    r"\b(?:did|have|had|was|were|am|do) i\b|\b(?:my|i (?:said|asked|wanted|told))\b"
)
_THEIR_WORDS = re.compile(
    r"\b(?:did|have|had|were|do) you\b|\byou (?:said|found|answered|proposed)\b"
)
_OUTPUT_WORDS = re.compile(
    r"\b(?:printed|prints?|output|stack ?trace|traceback|exit code|logged|stderr|stdout)\b"
)
_LABEL = re.compile(r"\[?([^\W\d_][\w.-]{0,30}(?: [^\W\d_][\w.-]{0,30})?)\]?:\s")
_NAME = re.compile(r"[^\W\d_][\w-]*")
_ENDS_ASKING = re.compile(r"[?\uff1f][\"')\]]*\s*$")
_QUESTION_WORD = re.compile(r"\b(?:when|where|who|whom|whose|why|how)\b")
_MARK = re.compile(r"[?\uff1f]")
_SENTENCE_END = re.compile(r"[.!]|(?<=[?\uff1f])")
_SHORT = 400
"""Characters of a text that may be nothing but a question."""


class Clues(NamedTuple):
    """What a query asks for besides its words; `factors` says how well a text fits."""

    is_question: bool = False
    asks_time: bool = False
    asks_number: bool = False
    role: str = ""
    """Whose words are asked for: ``user``, ``assistant``, ``tool``, or nobody's in particular."""
    names: frozenset[str] = frozenset()
    """The words of the query, folded: a speaker may be among them."""

    question_words: frozenset[str] = frozenset()
    """Where, when, who, why or how: what a question that is the same would ask with."""

    def asks_the_same(self, text: str) -> bool:
        """Return whether a short text has a question with a question word of the query."""
        return (
            bool(self.question_words)
            and asks_something(text)
            and any(
                self.question_words.intersection(_QUESTION_WORD.findall(fold(each)))
                for each in _SENTENCE_END.split(text)
                if _MARK.search(each)
            )
        )

    def factors(self, role: str, text: str, passage: str, weights: RankWeights) -> dict[str, float]:
        """Return the factors of a text, by what they are for; its best passage is given folded."""
        speaker = _speaker_label(text) if role in {"user", "assistant"} else ""
        # Who writes a name before the words is a person, whatever the role was called.
        found = {"role": self._role_factor("user" if speaker else role, weights)}
        if self.role == role or self.names.intersection(_NAME.findall(fold(speaker))):
            found["speaker"] = weights.speaker
        if self.asks_time and _TIME.search(passage):
            found["has a time"] = weights.answer
        if self.asks_number and _NUMBER.search(passage):
            found["has a number"] = weights.answer
        if self.is_question and only_asks(text):
            found["only asks"] = weights.question
        return {name: factor for name, factor in found.items() if factor != 1.0}

    def _role_factor(self, role: str, weights: RankWeights) -> float:
        if role == (self.role or "user"):
            return weights.user
        return 1.0 if role in {"user", "assistant", "agent"} else weights.tool


def _speaker_label(text: str) -> str:
    """Return the name that a text begins with, as in a chat of several people; else nothing."""
    label = _LABEL.match(speaker_prefix(text))
    return label[1] if label else ""


def speaker_prefix(text: str) -> str:
    """Return the name that a text begins with and what parts it from the words; else nothing."""
    label = _LABEL.match(text)
    return label[0] if label and not label[1][0].islower() else ""


def only_asks(text: str) -> bool:
    """Return whether a text is short and ends with a question."""
    return len(text) <= _SHORT and _ENDS_ASKING.search(text) is not None


def asks_something(text: str) -> bool:
    """Return whether a text is short and has a question in it."""
    return len(text) <= _SHORT and _MARK.search(text) is not None


def parse_clues(folded: str) -> Clues:
    """Return the clues of a folded query."""
    role = ""
    if _OUTPUT_WORDS.search(folded):
        role = "tool"
    elif _OWN_WORDS.search(folded):
        role = "user"
    elif _THEIR_WORDS.search(folded):
        role = "assistant"
    return Clues(
        is_question=_ASKS.search(folded) is not None,
        asks_time=_ASKS_TIME.search(folded) is not None,
        asks_number=_ASKS_NUMBER.search(folded) is not None,
        role=role,
        names=frozenset(_NAME.findall(folded)),
        question_words=frozenset(_QUESTION_WORD.findall(folded)),
    )
