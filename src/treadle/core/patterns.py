"""Patterns: regular expressions that are compiled at their first use.

Owns the stand-in for those that modules name. Most commands need few of them, and all of
them together take longer to compile than a request to write. Invariant: a stand-in does
what the compiled one does; it only is none for `isinstance`.
"""

from __future__ import annotations

import re
from typing import Any, cast, overload

__all__ = ["regex"]


@overload
def regex(text: str, flags: int = 0) -> re.Pattern[str]: ...
@overload
def regex(text: bytes, flags: int = 0) -> re.Pattern[bytes]: ...
def regex(text: str | bytes, flags: int = 0) -> re.Pattern[Any]:
    """What `re.compile` would return, as far as callers of its methods can tell."""
    return cast("re.Pattern[Any]", _Uncompiled(text, flags))


class _Uncompiled:
    """A regular expression of which nobody has asked anything yet."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._given: tuple[Any, int] = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)  # is found at once from now on
        return found
