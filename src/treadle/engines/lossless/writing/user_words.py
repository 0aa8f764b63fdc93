"""Keep what the user wants, word for word, beside a summary of everything else.

Owns which sentences of a user are wishes, how many of them stand in a summary, and the section
in which they do. Invariants: a sentence stands there as it was said, or shortened with a sign;
a section of several summaries has the wishes of all of them, as far as there is room, and
what sets a limit to the work goes before anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .clipping import byte_size, clip, looks_like_code, one_line, prose, sentences
from .fact_names import is_secret, names_in
from .passages import Passage

__all__ = ["WISHES", "is_telling", "split_wishes", "wishes_in", "with_wishes", "within_room"]

WISHES = "Goal, in the user's words:"
"""The heading of the section."""
_LONGEST = 240
"""Bytes of a sentence."""
_MOST_SENTENCES = 12
"""How many sentences of one message are looked at; a pasted report has hundreds."""
_LEAST_BYTES = 60
_LEAST_WORDS = 3
_LIMIT = re.compile(
    r"\b(?:must|never|always|only|don'?t|do not|cannot|can'?t|should(?:n'?t)?|shall|without"
    r"|instead|prefer|require[sd]?|need(?:s|ed)?|keep|avoid|ask me|at most|at least|no longer"
    r"|not|use|important|remember|please|want|stop|leave"
    r"|muss|müssen|nie|niemals|immer|nur|nicht|kein\w*|bitte|ohne|soll\w*|statt|lieber|höchstens"
    r"|debe|nunca|siempre|solo|sólo|doit|jamais|toujours|seulement|sans)\b"
    r"|必须|不要|不能|只|请|勿|禁止|务必|しないで|だけ|必ず|てください|마세요|반드시",
    re.IGNORECASE,
)


def wishes_in(pieces: Sequence[Passage], others: Iterable[str] = ()) -> tuple[str, ...]:
    """Return what the user of a source asked for, in the order in which it was said."""
    found: dict[str, None] = dict.fromkeys(others)
    for one in pieces:
        if one.kind == "summary":
            found |= dict.fromkeys(split_wishes(one.text)[1])
        elif one.kind == "user":
            found |= dict.fromkeys(_said(one.text))
    return tuple(found)


def within_room(wishes: Sequence[str], room: int) -> tuple[str, ...]:
    """Return those of `wishes` that fit into so many bytes, in their order.

    Those that set limits go first, and of equals the newest.
    """
    room -= byte_size(WISHES) + 1
    ranked = sorted(range(len(wishes)), key=lambda at: (_LIMIT.search(wishes[at]) is None, -at))
    kept: dict[int, str] = {}
    for at in ranked:
        # One that is too long for itself is shortened, unless nothing would be left of it.
        wish = wishes[at] if kept or room < _LEAST_BYTES else clip(wishes[at], room - 3)
        cost = byte_size(wish) + 3
        if cost <= room:
            kept[at] = wish
            room -= cost
    return tuple(kept[at] for at in sorted(kept))


def with_wishes(body: str, wishes: Sequence[str]) -> str:
    """Return a text with the section of wishes before it."""
    section = (WISHES, *(f"- {wish}" for wish in wishes)) if wishes else ()
    return "\n".join((*section, *([body] if body else [])))


def split_wishes(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a text without its sections of wishes, and what stands in them."""
    rest: list[str] = []
    wishes: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.strip(" *#") == WISHES:
            inside = True
        elif inside and line.startswith("- "):
            wishes.append(line[2:])
        else:
            inside = False
            rest.append(line)
    return "\n".join(rest), tuple(wishes)


def is_telling(sentence: str) -> bool:
    """Tell a sentence that says something from ``Go on.``, from code and from credentials."""
    if looks_like_code(sentence) or any(map(is_secret, sentence.split())):
        return False
    has_words = len(sentence.split()) >= _LEAST_WORDS or not sentence.isascii()
    return has_words or any(names_in(sentence))


def _said(text: str) -> list[str]:
    said = [
        clip(sentence, _LONGEST)
        for sentence in map(one_line, sentences(prose(text)))
        if is_telling(sentence)
    ]
    if len(said) <= _MOST_SENTENCES:
        return said
    limits = [one for one in said if _LIMIT.search(one)]
    return list(dict.fromkeys((said[0], *limits)))[:_MOST_SENTENCES]
