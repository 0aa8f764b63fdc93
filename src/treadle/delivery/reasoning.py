"""Silence behind thought: replies in which a model's reasoning leaked before its token.

Owns what counts as leaked thought, as the wish to stay silent, and as an answer. Invariant:
an answer behind the thought is never taken for thought; in doubt the reply is heard.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from ..core.patterns import regex

__all__ = ["is_reasoned", "may_become_reasoned"]

_NAMES = r"(?:(?:antml:|mm:)?(?:thinking|thought|think)|antthinking)"
_OPEN = regex(rf"\s*<({_NAMES})(?:\s[^<>]*)?>", re.IGNORECASE)
_BEGUN_OPEN = regex(rf"\s*<(?:{_NAMES}\s[^<>]*|([a-z:]*))", re.IGNORECASE)
_BEGINNINGS = tuple(
    f"{prefix}{name}" for prefix in ("", "ant", "antml:", "mm:") for name in ("thinking", "thought")
)
_LABELS = ("analysis", "reasoning", "think", "thinking", "thought")
_LABEL = regex(rf"\s*(?:{'|'.join(_LABELS)})[^\S\n]*:?[^\S\n]*\n", re.IGNORECASE)
_LAST_WORD = regex(r"[\w'’]+\Z")  # noqa: RUF001 - the apostrophe that models write
_LONGEST_INTENT = 240
_LONGEST_WISH = _LONGEST_INTENT + 120
"""An intent, with what may stand between it and the end of the token."""

_INTENT = regex(
    r"""\b(?:
        (?:stay|remain|keep|be|staying|remaining|keeping)\s+(?:silent|quiet)
      | (?:do\s+not|don['’]t|should\s+not|shouldn['’]t|must\s+not|need\s+not|needn['’]t|
          won['’]t|will\s+not|not\s+going\s+to|no\s+need\s+to|don['’]t\s+need\s+to|
          do\s+not\s+need\s+to)\s+(?:reply|respond|answer|say\s+anything|interject|chime\s+in)
      | no\s+(?:reply|response|answer|message)\s+(?:is\s+)?(?:needed|necessary|required|due)
      | nothing\s+(?:to\s+(?:say|add|reply|report|respond)|needs?\s+saying)
      | (?:reply|respond|answer|output|send|say|return)\s+(?:with\s+)?(?:only\s+)?nothing
      | silence\s+is\s+(?:right|best|fine|appropriate)
    )\b""",  # noqa: RUF001 - the apostrophe that models write
    re.IGNORECASE | re.VERBOSE,
)
_PLACEHOLDER = regex(
    r"[\s.…·\-–—*_]+|\(?(?:none|nothing|silence|silent|n/a)[.)]*",  # noqa: RUF001
    re.IGNORECASE,
)
_ANSWER = regex(
    r"\b(?:here\s+(?:is|are)|here['’]s|please|you\s+(?:can|could|should|may)|try|retry|"  # noqa: RUF001
    r"yes|sure|answer\s+is|the\s+answer|let\s+me\s+know|hope\s+(?:this|that)\s+helps|done)\b",
    re.IGNORECASE,
)


def is_reasoned(text: str, token: str, is_token: Callable[[str], bool]) -> bool:
    """Whether `text` is leaked thought, then the token, with nothing said between them."""
    if (rest := _behind_tags(text)) is not None:
        return is_token(rest) or _is_intent(_before_token(rest, token))
    if (thought := _behind_opening(text)) is None:
        return False
    if is_token(thought):
        return True
    before = _before_token(thought, token)
    *earlier, last = before.strip().split("\n") if before is not None else [""]
    return _is_intent(last) and not any(_ANSWER.search(line) for line in earlier)


def may_become_reasoned(text: str, begins_token: Callable[[str], bool]) -> bool:
    """Whether `text` can still go on to become such a reply."""
    if (rest := _behind_tags(text)) is not None:
        return begins_token(rest) or (len(rest) <= _LONGEST_WISH and not _is_answering(rest))
    if (thought := _behind_opening(text)) is not None:
        tagged = _OPEN.match(text) is not None
        return tagged or begins_token(thought) or not _is_answering(thought)
    return _begins_tag(text) or _begins_label(text)


def _begins_tag(text: str) -> bool:
    begun = _BEGUN_OPEN.fullmatch(text)
    return begun is not None and (
        begun[1] is None or any(name.startswith(begun[1].casefold()) for name in _BEGINNINGS)
    )


def _begins_label(text: str) -> bool:
    word = text.lstrip()
    label = word.rstrip().removesuffix(":").rstrip().casefold()
    return "\n" not in word and any(known.startswith(label) for known in _LABELS)


def _behind_tags(text: str) -> str | None:
    """What follows the closed tags of thought that `text` begins with; None without any."""
    start = 0
    while opened := _OPEN.match(text, start):
        closed = _closing(opened[1].lower()).search(text, opened.end())
        if closed is None:
            # An open one is no answer either; what is before it was.
            return None
        start = closed.end()
    return text[start:] if start else None


def _behind_opening(text: str) -> str | None:
    """What follows a tag that is never closed, or a line that only names the thought."""
    start, found = 0, None
    while (opened := _OPEN.match(text, start)) is not None:
        found = opened
        closed = _closing(opened[1].lower()).search(text, opened.end())
        if closed is None:
            return text[opened.end() :]
        start = closed.end()
    if found is not None:
        return None
    label = _LABEL.match(text)
    return None if label is None else text[label.end() :]


def _is_answering(text: str) -> bool:
    """Whether the words that are complete already hold an answer."""
    return _ANSWER.search(_LAST_WORD.sub("", text)) is not None


@lru_cache(maxsize=16)
def _closing(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{re.escape(name)}\s*>", re.IGNORECASE)


def _before_token(text: str, token: str) -> str | None:
    """What stands before the token at the end of `text`; None where there is no such token."""
    body = text.rstrip().rstrip("*_`.!")
    before = body[: -len(token)]
    if body[len(before) :].upper() != token.upper():
        return None
    return None if before[-1:].isalnum() or before.endswith("_") else before.rstrip(" \t\r\n*`")


def _is_intent(line: str | None) -> bool:
    """Whether a line only says that nothing will be said."""
    if line is None or len(line) > _LONGEST_INTENT or _ANSWER.search(line):
        return False
    return bool(_INTENT.search(line) or _PLACEHOLDER.fullmatch(line.strip() or "x"))
