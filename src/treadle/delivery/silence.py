"""Silent replies: the texts by which a model says that it has nothing to say.

Owns the forms of the token, by itself (`is_token`), as a whole reply (`is_silent_text`) and
next to a real answer; what counts as leaked reasoning before it; and the filter of a
stream. Invariants: all of it is pure, and takes time linear in the text; prose that merely
mentions the token is never silent; in doubt a reply is delivered.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from ..core.errors import ConfigError
from .channel import NO_REPLY

__all__ = [
    "SilenceFilter",
    "could_become_silent",
    "is_artifact",
    "is_envelope",
    "is_silent_text",
    "is_token",
    "starts_with_token",
    "strip_leading_token",
    "strip_token",
    "strip_trailing_token",
]

_EDGES = r"""\s*_~`"'.,!?;:()\-–—…“”‘’«»"""  # noqa: RUF001 - marks that models write
_BLANK = " \t\n\r"
_ARTIFACT = re.compile(
    r"(?:<\|[a-z_]{1,40}\|>(?:analysis|commentary|final|assistant)?|[\u2500-\u257f]|\s)+"
)
_ARTIFACT_START = re.compile(
    r"(?:<\|[a-z_]{1,40}\|>(?:analysis|commentary|final|assistant)?|[\u2500-\u257f]|\s)*"
    r"(?:<(?:\|[a-z_]{0,40}\|?)?|<\|[a-z_]{1,40}\|>[a-z]{1,10})?"
)

_NAMES = r"(?:(?:antml:|mm:)?(?:thinking|thought|think)|antthinking)"
_OPEN = re.compile(rf"\s*<({_NAMES})(?:\s[^<>]*)?>", re.IGNORECASE)
_OPEN_START = re.compile(rf"\s*<(?:{_NAMES}\s[^<>]*|([a-z:]*))", re.IGNORECASE)
_TAG_NAMES = tuple(
    f"{prefix}{name}" for prefix in ("", "ant", "antml:", "mm:") for name in ("thinking", "thought")
)
_LABELS = ("analysis", "reasoning", "think", "thinking", "thought")
_LABEL = re.compile(rf"\s*(?:{'|'.join(_LABELS)})[^\S\n]*:?[^\S\n]*\n", re.IGNORECASE)
_LAST_WORD = re.compile(r"[\w'’]+\Z")  # noqa: RUF001 - the apostrophe that models write
_LONGEST_INTENT = 240
_LONGEST_TAIL = _LONGEST_INTENT + 120
"""An intent, with what may come between it and the end of the token."""

_INTENT = re.compile(
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
_PLACEHOLDER = re.compile(
    r"[\s.…·\-–—*_]+|\(?(?:none|nothing|silence|silent|n/a)[.)]*",  # noqa: RUF001
    re.IGNORECASE,
)
_ANSWER = re.compile(
    r"\b(?:here\s+(?:is|are)|here['’]s|please|you\s+(?:can|could|should|may)|try|retry|"  # noqa: RUF001
    r"yes|sure|answer\s+is|the\s+answer|let\s+me\s+know|hope\s+(?:this|that)\s+helps|done)\b",
    re.IGNORECASE,
)
_FILTER_SHARE = 64


class SilenceFilter(Struct):
    """Holds back the beginning of a streamed reply for as long as it may become silent.

    Nothing of a silent reply passes; every other text passes unchanged, in order, and once.
    """

    token: str = NO_REPLY
    _pending: str = ""
    _is_open: bool = False
    _next_check: int = 0
    """The length of the text at the next check: a long one is not checked for each letter."""

    @property
    def pending(self) -> str:
        """The text that is held back."""
        return self._pending

    def feed(self, delta: str) -> str:
        """Add `delta`; return the text that may be shown now."""
        if self._is_open:
            return delta
        self._pending += delta
        if len(self._pending) < self._next_check:
            return ""
        if could_become_silent(self._pending, self.token):
            self._next_check = len(self._pending) * (_FILTER_SHARE + 1) // _FILTER_SHARE
            return ""
        self._is_open = True
        return self._take()

    def end(self) -> str:
        """End the reply and begin the next one; return the text that is left to show."""
        text, self._is_open = self._take(), False
        return "" if is_silent_text(text, self.token) or is_artifact(text) else text

    def _take(self) -> str:
        text, self._pending, self._next_check = self._pending, "", 0
        return text


def is_token(text: str, token: str = NO_REPLY) -> bool:
    """Return whether `text` is the token, in any case, once or repeated, marks around it or not."""
    return bool(text) and _whole(token).fullmatch(text) is not None


def is_envelope(text: str, token: str = NO_REPLY) -> bool:
    """Return whether `text` is the object ``{"action": token}`` and no more; its case counts."""
    return _place_in_envelope(text.strip(_BLANK), token) == _COMPLETE


def is_silent_text(text: str, token: str = NO_REPLY) -> bool:
    """Return whether a text says nothing: token, envelope, or token after reasoning."""
    return (
        is_token(text, token) or is_envelope(text, token) or _is_silent_after_reasoning(text, token)
    )


def is_artifact(text: str) -> bool:
    """Return whether `text` is only marks of a model's own format, or ruled lines."""
    return bool(text.strip()) and _ARTIFACT.fullmatch(text) is not None


def strip_trailing_token(text: str, token: str = NO_REPLY) -> str:
    """Return `text` without a token at its end that blanks or asterisks set apart."""
    _whole(token)
    body = text.rstrip()
    before = body[: -len(token)]
    if body[len(before) :].upper() != token.upper():
        return text.strip()
    if before and not before[-1].isspace() and before[-1] != "*":
        return text.strip()
    return before.rstrip().rstrip("*").strip() if before.endswith("*") else before.strip()


def starts_with_token(text: str, token: str = NO_REPLY) -> bool:
    """Return whether an answer follows a token at once, or on the lines below it."""
    return not is_token(text, token) and _leading(token).match(text) is not None


def strip_leading_token(text: str, token: str = NO_REPLY) -> str:
    """Return `text` without the tokens before its answer."""
    while starts_with_token(text, token):
        text = text.lstrip()[len(token) :].lstrip()
    return text


def strip_token(text: str, token: str = NO_REPLY) -> str:
    """Return an answer without a token at either end."""
    return strip_trailing_token(strip_leading_token(text, token), token)


def could_become_silent(text: str, token: str = NO_REPLY) -> bool:
    """Return whether `text` can still become a silent reply or an artifact.

    True for every beginning of such a text; false as soon as an answer has begun.
    """
    return (
        _begins_token(text, token)
        or _place_in_envelope(text.lstrip(_BLANK), token) != _ELSEWHERE
        or _could_end_silent_after_reasoning(text, token)
        or _ARTIFACT_START.fullmatch(text) is not None
    )


def _begins_token(text: str, token: str) -> bool:
    return _start_of(token).fullmatch(text) is not None


_ELSEWHERE, _WITHIN, _COMPLETE = range(3)


def _place_in_envelope(text: str, token: str) -> int:
    """Return how far `text`, which begins without blanks, agrees with the envelope."""
    for part in ("{", '"action"', ":", '"', token, '"', "}"):
        # The value is trimmed, so blanks may stand within its quotes as well.
        text = text.lstrip(_BLANK)
        if not text.startswith(part):
            return _WITHIN if part.startswith(text) else _ELSEWHERE
        text = text[len(part) :]
    return _ELSEWHERE if text.strip(_BLANK) else _COMPLETE


@lru_cache(maxsize=16)
def _whole(token: str) -> re.Pattern[str]:
    _check(token)
    return re.compile(rf"[{_EDGES}]*(?:{token}[{_EDGES}]*)+", re.IGNORECASE)


@lru_cache(maxsize=16)
def _start_of(token: str) -> re.Pattern[str]:
    """Return a pattern of marks and tokens, then a part of one."""
    _check(token)
    part = ""
    for letter in reversed(token):
        part = f"(?:{letter}{part})?"
    return re.compile(rf"[{_EDGES}]*(?:{token}[{_EDGES}]*)*{part}", re.IGNORECASE)


@lru_cache(maxsize=16)
def _leading(token: str) -> re.Pattern[str]:
    _check(token)
    return re.compile(rf"\s*{token}(?:[^\W_]|[^\S\n]*\n\s*\S)", re.IGNORECASE)


def _check(token: str) -> None:
    """Raise `ConfigError` for a token that a pattern cannot hold as it is."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*[A-Za-z0-9]", token) is None:
        raise ConfigError(
            f"the silent token {token!r} cannot be told from an answer; "
            "use letters, digits and underscores, beginning and ending with no underscore"
        )


def _is_silent_after_reasoning(text: str, token: str) -> bool:
    """Return whether `text` is leaked reasoning, then the token, with no answer between."""
    if (rest := _after_tags(text)) is not None:
        return is_token(rest, token) or _is_intent(_before_token(rest, token))
    if (reasoning := _after_opening(text)) is None:
        return False
    if is_token(reasoning, token):
        return True
    before = _before_token(reasoning, token)
    *earlier, last = before.strip().split("\n") if before is not None else [""]
    return _is_intent(last) and not any(_ANSWER.search(line) for line in earlier)


def _could_end_silent_after_reasoning(text: str, token: str) -> bool:
    """Return whether `text` can still become reasoning with the token after it."""
    if (rest := _after_tags(text)) is not None:
        return _begins_token(rest, token) or (
            len(rest) <= _LONGEST_TAIL and not _has_begun_answer(rest)
        )
    if (reasoning := _after_opening(text)) is not None:
        is_tagged = _OPEN.match(text) is not None
        return is_tagged or _begins_token(reasoning, token) or not _has_begun_answer(reasoning)
    return _begins_tag(text) or _begins_label(text)


def _begins_tag(text: str) -> bool:
    start = _OPEN_START.fullmatch(text)
    return start is not None and (
        start[1] is None or any(name.startswith(start[1].casefold()) for name in _TAG_NAMES)
    )


def _begins_label(text: str) -> bool:
    word = text.lstrip()
    label = word.rstrip().removesuffix(":").rstrip().casefold()
    return "\n" not in word and any(known.startswith(label) for known in _LABELS)


def _after_tags(text: str) -> str | None:
    """Return what follows the closed reasoning tags at the start of `text`; None without any."""
    start = 0
    while opened := _OPEN.match(text, start):
        closed = _closing(opened[1].lower()).search(text, opened.end())
        if closed is None:
            # An open one is no answer either; what is before it was.
            return None
        start = closed.end()
    return text[start:] if start else None


def _after_opening(text: str) -> str | None:
    """Return what follows a tag that is never closed, or a line with only a label."""
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


def _has_begun_answer(text: str) -> bool:
    """Return whether the complete words of `text` hold an answer."""
    return _ANSWER.search(_LAST_WORD.sub("", text)) is not None


@lru_cache(maxsize=16)
def _closing(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{re.escape(name)}\s*>", re.IGNORECASE)


def _before_token(text: str, token: str) -> str | None:
    """Return what comes before the token at the end of `text`; None without such a token."""
    body = text.rstrip().rstrip("*_`.!")
    before = body[: -len(token)]
    if body[len(before) :].upper() != token.upper():
        return None
    return None if before[-1:].isalnum() or before.endswith("_") else before.rstrip(" \t\r\n*`")


def _is_intent(line: str | None) -> bool:
    """Return whether a line only says that nothing will be said."""
    if line is None or len(line) > _LONGEST_INTENT or _ANSWER.search(line):
        return False
    return bool(_INTENT.search(line) or _PLACEHOLDER.fullmatch(line.strip() or "x"))
