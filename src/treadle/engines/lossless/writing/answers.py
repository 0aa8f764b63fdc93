"""Answers: a model's words, made fit to stand as a summary.

Owns what is taken off: reasoning, wrappings, and whatever pretends to be the frame of a
conversation. Invariant: what is left is prose with one expand line at its end, or
nothing.
"""

from __future__ import annotations

import re

from ....core.patterns import regex
from .expanding import body_of, named_in, with_names

__all__ = ["cleaned"]

_THOUGHT = "think|thinking|thought|reasoning|analysis|scratchpad"
_THINKING = regex(rf"<({_THOUGHT})\b[^>]*>.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE)
_THOUGHT_BEFORE = regex(rf"\A.*</(?:{_THOUGHT})\s*>[^\S\n]*\n", re.DOTALL | re.IGNORECASE)
_FRAME = regex(
    r"<\|[^|>\n]{1,40}\|>|\[/?INST\]|<</?SYS>>|</?s>|</?(?:start|end)_of_turn>"
    r"|</?(?:summary|source|draft|must_keep|previous_summary|thread_history)\s*>",
    re.IGNORECASE,
)
_FENCE = regex(r"\A```[\w-]*\n(.*?)\n?```\Z", re.DOTALL)
_ROLE = regex(
    r"^([^\S\n]*)#*[^\S\n]*(system|developer|user|human|assistant|tool|ai)[^\S\n]*:(?=\s)",
    re.IGNORECASE | re.MULTILINE,
)
_HEADING = regex(r"^={3,}[^\S\n]*", re.MULTILINE)


def cleaned(answer: str) -> str:
    """A summary from what a model said; ``""`` when it said nothing but its thoughts."""
    text = answer.encode(errors="replace").decode()
    text = _THOUGHT_BEFORE.sub("", _THINKING.sub("", text))
    # Taking one thing off may put another together.
    while (less := _FRAME.sub("", text)) != text:
        text = less
    text = text.strip()
    if fenced := _FENCE.match(text):
        text = fenced[1]
    text = _ROLE.sub(r"\1\2 said:", _HEADING.sub("", text)).strip()
    body = body_of(text)
    return with_names(body, named_in(text)) if body else ""
