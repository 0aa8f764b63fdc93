"""Names: which words of a text are worth keeping word for word.

Owns the shapes of paths, identifiers and numbers that name something. Invariant: a word
is looked at once, by itself; what looks like a credential is never a name.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Literal, TypeAlias

from ....core.patterns import regex

__all__ = ["Sort", "names_in", "sort_of"]

Sort: TypeAlias = Literal["path", "identifier", "id", ""]

_WORD = regex(r"(?<!<)[A-Za-z0-9_~./\\@#:+-]{4,200}")
_EDGES = ".,:;-+\\"
_PLACE = regex(r"(?::\d+)+$|::.*$")

_URL = regex(r"https?://[\w.-]+[\w./~+-]*")
_PATH = regex(r"(?:~|\.{1,2})?/?[\w.@+-]+(?:/[\w.@+-]+)+/?")
_ROOTED = regex(r"(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]+)*/?")
_FILE = regex(
    r"[\w-][\w.-]*\.(?:py|pyi|ts|tsx|js|jsx|mjs|rs|go|c|h|cc|cpp|hpp|java|kt|swift|rb|php|cs|md|rst"
    r"|txt|toml|json|jsonl|yaml|yml|ini|cfg|conf|env|lock|log|csv|sql|sh|html|css|xml|db|ipynb)"
)
_IDENTIFIER = regex(
    r"_*[A-Za-z][A-Za-z0-9]*(?:_+[A-Za-z0-9]+)+_*"
    r"|[a-z][a-z0-9]+[A-Z]\w*"
    r"|(?:[A-Z][a-z0-9]+){2,}"
    r"|[A-Za-z_]\w+(?:(?:\.|::)[A-Za-z_]\w+)+"
)
_ID = regex(
    r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|v?\d+\.\d+\.\d+\w*(?:[.+-]\w+)*|#\d+|[A-Z]{2,10}-\d+|\d{5,}"
)
_SECRET = regex(
    r"(?:sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|AKIA|ASIA|AIza|hf|npm|eyJ)[-_A-Za-z0-9]{16,}"
    r"|[A-Za-z0-9_+/-]{48,}"
)


def names_in(text: str) -> Iterable[str]:
    """The words of `text` that may be names, each once, in order, without their edges."""
    return dict.fromkeys(map(_bare, dict.fromkeys(_WORD.findall(text))))


@functools.lru_cache(maxsize=16_384)
def sort_of(word: str) -> Sort:
    """What kind of name a word is; ``""`` for a word like any other."""
    if len(word) < 2 or _SECRET.fullmatch(word):
        return ""
    if _URL.fullmatch(word) or _FILE.fullmatch(word):
        return "path"
    if "/" in word:
        return "path" if _is_path(word) else ""
    if _ID.fullmatch(word):
        return "id"
    return "identifier" if len(word) > 4 and _IDENTIFIER.fullmatch(word) else ""


def _is_path(word: str) -> bool:
    """Tells ``src/app`` from ``and/or``: a path is rooted, deep, or names a file."""
    if not _PATH.fullmatch(word) and not _ROOTED.fullmatch(word):
        return False
    steps = word.strip("/").split("/")
    if all(step.isdigit() for step in steps):
        return False
    return word[0] in "/~." or len(steps) > 2 or "." in steps[-1] or "_" in word


@functools.lru_cache(maxsize=16_384)
def _bare(word: str) -> str:
    """A word without punctuation, and a path without the line it points at."""
    word = word.rstrip(_EDGES).lstrip(",:;+-\\")
    return _PLACE.sub("", word) if "/" in word or "." in word else word
