"""Ignore rules: which names a scan passes over.

Owns the format of `.gitignore` files and the directories that no scan enters. Invariants: the
last rule that matches decides, a deeper file decides before a higher one, and whatever a file
says, no pattern makes matching slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

__all__ = ["IGNORED_NAMES", "IgnoreFile", "is_ignored", "parse_ignore_file"]

IGNORED_NAMES = frozenset(
    {
        *(b".git", b".hg", b".svn", b".jj"),
        *(b"node_modules", b"__pycache__", b".venv", b".tox", b".nox", b".direnv"),
        *(b".mypy_cache", b".pytest_cache", b".ruff_cache", b".hypothesis"),
        *(b".gradle", b".terraform", b".next", b".nuxt", b".parcel-cache", b".turbo"),
    }
)
"""Directories of version control, and those that programs fill and can fill again."""

_MOST_RULES = 2_000
_STARS = re.compile(rb"\*{2,}")
_PLAIN = re.compile(rb"[^*?\[\]\\/!#]+")
_SUFFIX = re.compile(rb"\*(\.[^.*?\[\]\\/!#]+)")
_CLASS = re.compile(rb"\[(?P<not>[!^]?)(?P<inner>\][^\]\\/]*|[^\]\\/]+)\]")


_NEVER = rb"(?!)"
"""Matches nothing, as git takes a bracket that nobody closes."""


class _Rule(Struct, frozen=True):
    negated: bool
    pattern: re.Pattern[bytes]


class IgnoreFile(Struct, frozen=True):
    """The rules of one file; `base` is its directory, with a slash at the end."""

    base: bytes
    rules: tuple[_Rule, ...]
    names: frozenset[bytes]
    suffixes: frozenset[bytes]
    other_names: re.Pattern[bytes] | None
    paths: re.Pattern[bytes] | None
    """Like the three before: most paths match none of the four, and are done."""

    def decide(self, path: bytes) -> bool | None:
        """Return whether `path` is ignored; None when no rule matches."""
        inner = path[len(self.base) :]
        if not self._may_match(inner):
            return None
        for rule in reversed(self.rules):
            if rule.pattern.match(inner) is not None:
                return not rule.negated
        return None

    def _may_match(self, path: bytes) -> bool:
        name = path.rstrip(b"/").rpartition(b"/")[2]
        if name in self.names or b"." + name.rpartition(b".")[2] in self.suffixes:
            return True
        if self.other_names is not None and self.other_names.fullmatch(name):
            return True
        return self.paths is not None and self.paths.match(path) is not None


def is_ignored(path: bytes, files: Sequence[IgnoreFile]) -> bool:
    """Return whether `path` is ignored; a directory ends with a slash, `files` go inwards."""
    for file in reversed(files):
        decided = file.decide(path)
        if decided is not None:
            return decided
    return False


def parse_ignore_file(base: bytes, data: bytes) -> IgnoreFile:
    """Read the rules of one file; lines that cannot be read are passed over."""
    rules: list[_Rule] = []
    names: set[bytes] = set()
    suffixes: set[bytes] = set()
    other_names: list[bytes] = []
    paths: list[bytes] = []
    for line in data.split(b"\n")[:_MOST_RULES]:
        for negated, glob, text in _parse_line(line):
            rules.append(_Rule(negated, re.compile(text, re.DOTALL)))
            if _PLAIN.fullmatch(glob):
                names.add(glob)
            elif suffix := _SUFFIX.fullmatch(glob):
                suffixes.add(suffix[1])
            elif b"/" in glob:
                paths.append(text)
            else:
                other_names.append(_segment(glob))
    return IgnoreFile(
        base,
        tuple(rules),
        frozenset(names),
        frozenset(suffixes),
        _compile_any(other_names),
        _compile_any(paths),
    )


def _compile_any(texts: Sequence[bytes]) -> re.Pattern[bytes] | None:
    return re.compile(b"|".join(texts), re.DOTALL) if texts else None


def _parse_line(line: bytes) -> Iterator[tuple[bool, bytes, bytes]]:
    """Yield whether a line takes back, its pattern, and that as a regular expression."""
    line = _strip(line.removesuffix(b"\r"))
    if not line or line.startswith(b"#"):
        return
    negated = line.startswith(b"!")
    line = line[1:] if negated else line
    only_directories = line.endswith(b"/")
    glob = line[:-1] if only_directories else line
    if not glob or glob.endswith(b"/"):
        return
    anchored = b"/" in glob
    text = _translate(glob.removeprefix(b"/")) if anchored else b"(?:.*/)?" + _segment(glob)
    rule = b"(?:" + text + (b"/" if only_directories else b"/?") + rb")\Z"
    try:
        re.compile(rule)
    except re.error:
        return
    yield negated, glob, rule


def _strip(line: bytes) -> bytes:
    """Take away spaces at the end, but for one that a backslash keeps."""
    bare = line.rstrip(b" ")
    kept = len(bare) - len(bare.rstrip(b"\\"))
    return bare + b" " if kept % 2 and len(bare) < len(line) else bare


def _translate(glob: bytes) -> bytes:
    """Return a regular expression for a pattern of several names.

    What follows `**` is looked for once, at its first place: a later one matches no more.
    """
    chunks: list[list[bytes]] = [[]]
    names = [b"**" if _STARS.fullmatch(name) else name for name in glob.split(b"/")]
    if set(names) == {b"**"}:
        return b".+"
    ends_open = names[-1] == b"**"
    for name in names[:-1] if ends_open else names:
        if name == b"**":
            chunks.append([])
        else:
            chunks[-1].append(_segment(name))
    texts = [b"/".join(chunk) for chunk in chunks]
    parts = [texts[0]]
    for number, text in enumerate(texts[1:], start=1):
        if not text:
            continue
        deeper = b"(?:[^/]+/)*?" + text
        last = number == len(texts) - 1 and not ends_open
        slash = b"/" if parts != [b""] else b""
        parts.append(slash + (deeper if last else b"(?>" + deeper + b"(?=/))"))
    return b"".join(parts) + (b"/.+" if ends_open and parts != [b""] else b"")


def _segment(glob: bytes) -> bytes:
    """Return a regular expression for one name; between stars, the first place is enough."""
    pieces: list[list[bytes]] = [[]]
    at = 0
    while at < len(glob):
        if glob[at : at + 1] == b"*":
            pieces.append([])
            at += 1
        else:
            text, at = _character(glob, at)
            pieces[-1].append(text)
    fixed = [b"".join(piece) for piece in pieces]
    if len(fixed) == 1:
        return fixed[0]
    if not any(fixed):
        return b"[^/]+"
    middle = b"".join(b"(?>[^/]*?" + text + b")" for text in fixed[1:-1] if text)
    return fixed[0] + middle + b"[^/]*" + fixed[-1]


def _character(glob: bytes, at: int) -> tuple[bytes, int]:
    character = glob[at : at + 1]
    if character == b"?":
        return b"[^/]", at + 1
    if character == b"\\" and at + 1 < len(glob):
        return re.escape(glob[at + 1 : at + 2]), at + 2
    if character == b"[":
        found = _CLASS.match(glob, at)
        if found is None:
            return _NEVER, at + 1
        inner = re.sub(rb"([\[&~|\]^])", rb"\\\1", found["inner"])
        return (b"[^/" if found["not"] else b"[") + inner + b"]", found.end()
    return re.escape(character), at + 1
