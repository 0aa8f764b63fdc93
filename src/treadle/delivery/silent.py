"""Silent replies: the texts by which a model says that there is nothing to say.

Owns the forms of the token, whole ones (`is_token`), those of a payload (`is_silent_text`)
and those glued to a real answer. Invariant: all of it is pure, and takes time linear in the
text; prose that merely mentions the token is never silent.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..core.errors import ConfigError
from ..core.patterns import regex
from .reasoning import is_reasoned, may_become_reasoned
from .token import NO_REPLY

__all__ = [
    "NO_REPLY",
    "could_become_silent",
    "is_artifact",
    "is_envelope",
    "is_held_prefix",
    "is_silent_text",
    "is_token",
    "starts_with_token",
    "strip_leading_token",
    "strip_token",
    "strip_trailing_token",
]

_EDGES = r"""\s*_~`"'.,!?;:()\-–—…“”‘’«»"""  # noqa: RUF001 - marks that models write
_BLANK = " \t\n\r"
_ARTIFACT = regex(
    r"(?:<\|[a-z_]{1,40}\|>(?:analysis|commentary|final|assistant)?|[\u2500-\u257f]|\s)+"
)
_BEGUN_ARTIFACT = regex(
    r"(?:<\|[a-z_]{1,40}\|>(?:analysis|commentary|final|assistant)?|[\u2500-\u257f]|\s)*"
    r"(?:<(?:\|[a-z_]{0,40}\|?)?|<\|[a-z_]{1,40}\|>[a-z]{1,10})?"
)


def is_token(text: str, token: str = NO_REPLY) -> bool:
    """Whether `text` is the token: in any case, repeated, and with marks around it or not."""
    return bool(text) and _whole(token).fullmatch(text) is not None


def is_envelope(text: str, token: str = NO_REPLY) -> bool:
    """Whether `text` is the object ``{"action": token}`` and no more; its case counts."""
    return _place_in_envelope(text.strip(_BLANK), token) == _COMPLETE


def is_silent_text(text: str, token: str = NO_REPLY) -> bool:
    """Whether a reply of this text says nothing: token, envelope, or token behind thought."""
    return (
        is_token(text, token)
        or is_envelope(text, token)
        or is_reasoned(text, token, lambda rest: is_token(rest, token))
    )


def is_artifact(text: str) -> bool:
    """Whether `text` is only marks of a model's own format, or ruled lines."""
    return bool(text.strip()) and _ARTIFACT.fullmatch(text) is not None


def strip_trailing_token(text: str, token: str = NO_REPLY) -> str:
    """`text` without a token at its end that blanks or asterisks set apart."""
    _whole(token)
    body = text.rstrip()
    before = body[: -len(token)]
    if body[len(before) :].upper() != token.upper():
        return text.strip()
    if before and not before[-1].isspace() and before[-1] != "*":
        return text.strip()
    return before.rstrip().rstrip("*").strip() if before.endswith("*") else before.strip()


def starts_with_token(text: str, token: str = NO_REPLY) -> bool:
    """Whether an answer is glued to a token before it, or stands on the lines below one."""
    return not is_token(text, token) and _leading(token).match(text) is not None


def strip_leading_token(text: str, token: str = NO_REPLY) -> str:
    """`text` without the tokens that its answer is glued to."""
    while starts_with_token(text, token):
        text = text.lstrip()[len(token) :].lstrip()
    return text


def strip_token(text: str, token: str = NO_REPLY) -> str:
    """What remains of an answer that has a token at either end."""
    return strip_trailing_token(strip_leading_token(text, token), token)


def is_held_prefix(text: str, token: str = NO_REPLY) -> bool:
    """Whether a stream that began with `text` looks as if it were to say the token.

    Capitals only, two or more, and as many as tell the token from an ordinary word.
    """
    begun = text.lstrip()
    if len(begun) < 2 or not token.startswith(begun):
        return False
    return "_" in begun or begun == token or (begun, token) == ("NO", NO_REPLY)


def could_become_silent(text: str, token: str = NO_REPLY) -> bool:
    """Whether some way to go on from `text` makes a silent reply or an artifact.

    True for every beginning of such a text; false as soon as an answer has begun.
    """
    return (
        _begins_token(text, token)
        or _place_in_envelope(text.lstrip(_BLANK), token) != _ELSEWHERE
        or may_become_reasoned(text, lambda rest: _begins_token(rest, token))
        or _BEGUN_ARTIFACT.fullmatch(text) is not None
    )


def _begins_token(text: str, token: str) -> bool:
    return _begun(token).fullmatch(text) is not None


_ELSEWHERE, _WITHIN, _COMPLETE = range(3)


def _place_in_envelope(text: str, token: str) -> int:
    """How far the envelope goes along with `text`, which begins without blanks."""
    for part in ("{", '"action"', ":", '"', token, '"', "}"):
        # The value is trimmed, so blanks may stand within its quotes as well.
        text = text.lstrip(_BLANK)
        if not text.startswith(part):
            return _WITHIN if part.startswith(text) else _ELSEWHERE
        text = text[len(part) :]
    return _ELSEWHERE if text.strip(_BLANK) else _COMPLETE


@lru_cache(maxsize=16)
def _whole(token: str) -> re.Pattern[str]:
    escaped = _checked(token)
    return re.compile(rf"[{_EDGES}]*(?:{escaped}[{_EDGES}]*)+", re.IGNORECASE)


@lru_cache(maxsize=16)
def _begun(token: str) -> re.Pattern[str]:
    """Marks and tokens, then a part of one."""
    escaped = _checked(token)
    part = ""
    for letter in reversed(escaped):
        part = f"(?:{letter}{part})?"
    return re.compile(rf"[{_EDGES}]*(?:{escaped}[{_EDGES}]*)*{part}", re.IGNORECASE)


@lru_cache(maxsize=16)
def _leading(token: str) -> re.Pattern[str]:
    escaped = _checked(token)
    return re.compile(rf"\s*{escaped}(?:[^\W_]|[^\S\n]*\n\s*\S)", re.IGNORECASE)


def _checked(token: str) -> str:
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*[A-Za-z0-9]", token) is None:
        raise ConfigError(
            f"the silent token {token!r} cannot be told from an answer; "
            "use letters, digits and underscores, beginning and ending with no underscore"
        )
    return token
