"""Look-alikes: characters that a model or a person reads as others, or does not see at all.

Owns how a text is folded before markers are looked for in it. Invariant: every character of
the folded text stands for one character of the text, and its place there is known.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache

from msgspec import Struct

__all__ = ["FoldedText", "fold_look_alikes", "is_plain"]

_ODD = re.compile(
    r"\r(?!\n)|[^\x20-\x7e\n\t\r\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]"
)
"""What may be read as something else; large scripts that are not stay out, for speed."""
_LINE_ENDS = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_SIMILAR = dict(
    zip(
        # Brackets, Cyrillic, Greek and other letters that are drawn as Latin ones.
        "\u2039\u3008\u27e8\u276e\u276c\u1438\u02c2\u00ab\u203a\u3009\u27e9\u276f"
        "\u276d\u1433\u02c3\u00bb\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456"
        "\u0458\u0455\u0501\u04bb\u04cf\u043a\u043c\u043d\u0442\u0432\u051b\u051d"
        "\u0433\u03b1\u03bf\u03c1\u03bd\u03b9\u03ba\u03c4\u03b5\u03c9\u03c5\u0578"
        "\u057d\u050d\u2215\u2044\u29f8",
        "<<<<<<<<>>>>>>>>aeopcyxijsdhlkmhtbqwraopvikteuunug///",
        strict=True,
    )
)
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")


class FoldedText(Struct, frozen=True):
    """A text as it is read, and where its characters stand in the original."""

    text: str
    removed: list[int]
    """Places in `text` before which a character was left out, in order."""

    def place(self, index: int) -> int:
        """Return where the character at `index` stands in the original."""
        return index + bisect_right(self.removed, index)


def is_plain(text: str) -> bool:
    """Return whether `text` has nothing to fold."""
    return _ODD.search(text) is None


def fold_look_alikes(text: str) -> FoldedText:
    """Return `text` as it is read: without what nobody sees, each letter in its plain form."""
    removed: list[int] = []

    def fold(match: re.Match[str]) -> str:
        folded = _fold(match.group())
        if not folded:
            removed.append(match.start() - len(removed))
        return folded

    return FoldedText(_ODD.sub(fold, text), removed)


@lru_cache(maxsize=4096)
def _fold(char: str) -> str:
    """Return what `char` is read as: one character, or nothing."""
    from unicodedata import category, combining, normalize

    if char in _LINE_ENDS:
        return "\n"
    if char in _FILLERS or category(char) in ("Cc", "Cf", "Cs", "Me") or _is_variation(char):
        return ""
    plain = normalize("NFKC", char)
    bare = "".join(each for each in normalize("NFKD", plain) if not combining(each))
    if combining(char):
        return ""
    for form in (bare, plain):
        if len(form) == 1:
            return _SIMILAR.get(form.lower(), form)
    return _SIMILAR.get(char.lower(), char)


def _is_variation(char: str) -> bool:
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
