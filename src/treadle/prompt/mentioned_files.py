"""Mentioned files: the contents of a file that a person named, as a part of their message.

Owns the words around them. Invariant: a part ends where its last line says so, nothing in the
file or its name reads as a marker, for the person has not written it, and its size is bounded.
"""

from __future__ import annotations

from functools import cache

from ..core.items import InputText
from ..core.text import TruncationPolicy, truncate_text, whole_characters
from .markers import Vocabulary
from .registry import builtin_vocabulary

__all__ = ["mentioned_file", "mentioned_path", "shown_path", "unreadable_file"]

_CAP_TOKENS = 10_000
_START = '<file path="'


def mentioned_file(path: str, text: str) -> InputText:
    """Return the contents of a file, cut in the middle where they are long."""
    kept = truncate_text(whole_characters(text), TruncationPolicy("tokens", _CAP_TOKENS))
    body = _words().quote(kept).rstrip("\n")
    return InputText(text=f'{_START}{shown_path(path)}">\n{body}\n</file>')


def unreadable_file(path: str, why: str) -> InputText:
    """Return what stands for a file that nobody could read."""
    return InputText(
        text=f'{_START}{shown_path(path)}">\nThe file could not be read: {why}\n</file>'
    )


def mentioned_path(text: str) -> str | None:
    """Return the path in a part that was made here; None for other texts."""
    if not (text.startswith(_START) and text.endswith("\n</file>")):
        return None
    return text[len(_START) : text.index("\n")].removesuffix('">')


def shown_path(path: str) -> str:
    """Return a path as it stands in an attribute: whoever named the file says nothing with it."""
    shown = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in path)
    plain = shown.replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
    return _words().quote(plain)


@cache
def _words() -> Vocabulary:
    return builtin_vocabulary().with_own(None, ("file",))
