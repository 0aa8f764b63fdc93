"""Mentions: the skills that a message calls by name.

Owns the two ways to write one: `$name` anywhere, and `/name` as the first word. Invariants: only
names of skills that there are count, so that an amount or a variable is neither; what a message
quotes as code calls nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["mentioned_names"]

_MOST = 8
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_DOLLAR = re.compile(r"(?<![\w$\\])\$([A-Za-z0-9][A-Za-z0-9_.:-]*)")
_SLASH = re.compile(r"\s*/([A-Za-z0-9][A-Za-z0-9_.:-]{0,63})(?=\s|\Z)")


def mentioned_names(text: str, is_known: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the names that a message calls, each once, in order."""
    first = _SLASH.match(text)
    called = [first[1]] if first is not None else []
    called += _DOLLAR.findall(_CODE.sub(" ", text)) if "$" in text else []
    found: dict[str, None] = {}
    for written in called:
        # A name may have a full stop inside, and a sentence has one behind it.
        for name in dict.fromkeys((written, written.rstrip(".:-"))):
            if is_known(name):
                found.setdefault(name.casefold())
                break
        if len(found) == _MOST:
            break
    return tuple(found)
