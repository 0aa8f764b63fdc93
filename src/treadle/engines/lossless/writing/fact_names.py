"""Tell names from words: paths, identifiers and ids in the text of a conversation.

Owns which words of a text are names, and of what kind. Invariants: a word that looks like a
credential is no name; neither is a name that every program of its language has, because it
tells nothing about this work.
"""

from __future__ import annotations

import builtins
import functools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

__all__ = [
    "NameKind",
    "has_name",
    "is_secret",
    "name_kind",
    "names_in",
    "path_endings",
    "proper_names",
]

NameKind: TypeAlias = Literal["path", "identifier", "id", ""]

_WORD = re.compile(r"(?<!<)[A-Za-z0-9_~./\\@#:+-]{4,200}")
_EDGES = ".,:;-+\\"
_LINE_NUMBER = re.compile(r"(?::\d+)+$|::.*$")

_URL = re.compile(r"https?://[\w.-]+[\w./~+-]*")
_DEEP_PATH = re.compile(r"(?:~|\.{1,2})?/?[\w.@+-]+(?:/[\w.@+-]+)+/?")
_ROOTED = re.compile(r"(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]+)*/?")
_FILE = re.compile(
    r"[\w-][\w.-]*\.(?:py|pyi|ts|tsx|js|jsx|mjs|rs|go|c|h|cc|cpp|hpp|java|kt|swift|rb|php|cs|md|rst"
    r"|txt|toml|json|jsonl|yaml|yml|ini|cfg|conf|env|lock|log|csv|sql|sh|html|css|xml|db|ipynb)"
)
_DEVICES = ("/dev/", "/proc/", "/sys/")
_FOLDERS = frozenset(
    """
    src source lib libs test tests spec doc docs app apps bin scripts tools config conf packages
    pkg cmd internal include assets static templates migrations examples vendor crates
    """.split()  # noqa: SIM905 - a list of words reads as words
)
"""What a path begins with that names no file and has no root."""

_IDENTIFIER = re.compile(
    r"_*[A-Za-z][A-Za-z0-9]*(?:_+[A-Za-z0-9]+)+_*"
    r"|[a-z][a-z0-9]+[A-Z]\w*"
    r"|(?:[A-Z][a-z0-9]+){2,}"
    r"|[A-Za-z_]\w+(?:(?:\.|::)[A-Za-z_]\w+)+"
)
_EVERYWHERE = frozenset(
    """
    self cls this super os sys re io abc ast csv copy enum glob gzip hmac html http json math time
    uuid types typing base64 bisect random shutil signal socket sqlite3 ssl string struct asyncio
    argparse builtins calendar codecs collections contextlib dataclasses datetime decimal
    functools hashlib heapq importlib inspect itertools logging operator pathlib pickle platform
    pprint secrets statistics subprocess tempfile textwrap threading traceback unittest urllib
    warnings weakref pytest std core alloc fmt strings strconv errors console process document
    window Array JSON Math Object Promise String Number java javax System
    """.split()  # noqa: SIM905
)
"""First parts of dotted names that belong to a language and not to anybody's work."""

_ID = re.compile(
    r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|v?\d+\.\d+\.\d+\w*(?:[.+-]\w+)*|#\d+|[A-Z]{2,10}-\d+|\d{5,}"
)
_SECRET = re.compile(
    r"(?:sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|AKIA|ASIA|AIza|hf|npm|eyJ)[-_A-Za-z0-9]{16,}"
    r"|[A-Za-z0-9_+/-]{48,}"
)

_PROPER = re.compile(r"[^\W\d_][,;:]? ([A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})*)(?![\w/(]|\.\w)")
_MID_SENTENCE_CAPITALS = 0.15
"""A language that writes more of its words with capitals does so with every noun."""
_CALENDAR = frozenset(
    """
    Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May June
    July August September October November December
    """.split()  # noqa: SIM905
)


def names_in(text: str) -> Iterator[tuple[str, NameKind]]:
    """Yield the names in `text`, each once, in order, with their kinds."""
    for word in dict.fromkeys(map(_without_edges, dict.fromkeys(_WORD.findall(text)))):
        if kind := name_kind(word):
            yield word, kind


def proper_names(texts: Sequence[str]) -> Iterator[str]:
    """Yield the names of people, products and places in `texts`, the most frequent first.

    Where most nouns begin with a capital, a capital tells nothing and there are none.
    """
    words = sum(len(text.split()) for text in texts)
    found = Counter(name for text in texts for name in _PROPER.findall(text))
    if found.total() <= max(2, words * _MID_SENTENCE_CAPITALS):
        yield from (name for name, _ in found.most_common() if name not in _CALENDAR)


def has_name(name: str, text: str) -> bool:
    """Return whether `text` has the name by itself, not inside a longer one."""
    at = text.find(name)
    while at >= 0:
        before, after = text[at - 1 : at] if at else "", text[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            return True
        at = text.find(name, at + 1)
    return False


def path_endings(path: str) -> Iterator[str]:
    """Yield the path, and its last steps: at least two of them."""
    yield path
    steps = [step for step in path.split("/") if step]
    for start in range(1, len(steps) - 1):
        yield "/".join(steps[start:])


def is_secret(word: str) -> bool:
    """Return whether a word looks like a credential."""
    return _SECRET.fullmatch(word) is not None


@functools.lru_cache(maxsize=16_384)
def name_kind(word: str) -> NameKind:
    """Return what kind of name a word is; ``""`` for a common word."""
    if len(word) < 2 or is_secret(word):
        return ""
    if _URL.fullmatch(word) or _FILE.fullmatch(word):
        return "path"
    if "/" in word:
        return "path" if _is_path(word) else ""
    if _ID.fullmatch(word):
        return "id"
    return "identifier" if _is_identifier(word) else ""


def _is_path(word: str) -> bool:
    """Tell ``src/app`` from ``and/or``: a path has a root, a known folder, or names a file."""
    if not _DEEP_PATH.fullmatch(word) and not _ROOTED.fullmatch(word):
        return False
    steps = word.strip("/").split("/")
    if word.startswith(_DEVICES) or all(step.isdigit() for step in steps):
        return False
    if "." in steps[-1].strip(".") or word[0] in "~.":
        return True
    if word[0] == "/":
        # ``/warning`` is as likely a command or a closing tag.
        return len(steps) > 1
    return steps[0] in _FOLDERS or "_" in word


def _is_identifier(word: str) -> bool:
    if len(word) <= 4 or not _IDENTIFIER.fullmatch(word) or hasattr(builtins, word):
        return False
    first, dot, _ = word.replace("::", ".").partition(".")
    return not dot or first not in _EVERYWHERE


@functools.lru_cache(maxsize=16_384)
def _without_edges(word: str) -> str:
    """Return a word without punctuation, and a path without its line number."""
    word = word.rstrip(_EDGES).lstrip(",:;+-\\")
    return _LINE_NUMBER.sub("", word) if "/" in word or "." in word else word
