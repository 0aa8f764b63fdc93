"""Front matter: the flat part of YAML at the head of the files of skills, commands and agents.

Owns a bounded reader for it: texts, lists of texts and one level of named texts. Invariants:
it takes time and memory in proportion to its input, which is bounded; nothing is ever built,
copied or looked up by what a file says, so that anchors, tags and aliases do nothing; a line
that cannot be read is a problem and never an exception.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

__all__ = ["MOST_CHARS", "Document", "MatterValue", "read_document"]

MOST_CHARS = 32 * 1024
"""Characters of front matter that are read."""

_MOST_KEYS = 64
_MOST_MEMBERS = 256
_MOST_PROBLEMS = 8

MatterValue: TypeAlias = str | tuple[str, ...] | Mapping[str, str]
"""What a key may have: a text, several, or texts by name."""

_FENCE = re.compile(r"---[ \t]*")
_KEY = re.compile(r"(?P<key>[A-Za-z_][\w.-]{0,63})[ \t]*:(?:[ \t]+(?P<value>.*)|)")
_ITEM = re.compile(r"-(?:[ \t]+(?P<value>.*)|)")
_BLOCK = re.compile(r"(?P<style>[|>])(?:[+-]?[1-9]?|[1-9][+-])(?:[ \t]+#.*)?")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/", "0": "", "r": "", " ": " "}
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_LAST_CHARACTER = 0x10FFFF


class Document(Struct, frozen=True):
    """A file with front matter: its values, the text below, and what could not be read."""

    values: Mapping[str, MatterValue]
    body: str
    problems: tuple[str, ...] = ()
    found: bool = True
    """Whether there is front matter at all."""

    def text(self, key: str) -> str:
        """Return a value as one text; a list is joined by blanks, and names are none."""
        value = self.values.get(key, "")
        if isinstance(value, tuple):
            return " ".join(value)
        return value if isinstance(value, str) else ""


def read_document(text: str) -> Document:
    """Read a text with front matter at its head. A mark of the byte order may come first."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    first, _, rest = text.partition("\n")
    if not _FENCE.fullmatch(first):
        return Document({}, text, ("it has no front matter between two lines of ---",), found=False)
    head = rest[: MOST_CHARS + 1]
    end = re.search(r"(?m)^(?:---|\.\.\.)[ \t]*$", head)
    if end is None:
        why = "is longer than it may be" if len(head) > MOST_CHARS else "has no end"
        return Document({}, "", (f"its front matter {why}",), found=False)
    reader = _Reader(head[: end.start()].split("\n"))
    reader.read()
    body = rest[end.end() :].removeprefix("\n")
    return Document(reader.values, body, tuple(reader.problems))


class _Reader(Struct):
    """Reads lines, one after the other; each is looked at a bounded number of times."""

    lines: list[str]
    at: int = 0
    values: dict[str, MatterValue] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def read(self) -> None:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            self.at += 1
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            found = _KEY.fullmatch(line.rstrip())
            if found is None:
                self._report(_misreading(line))
            elif found["key"] in self.values:
                self._report(f"names {found['key']!r} a second time")
                self._skip_indented()
            elif len(self.values) >= _MOST_KEYS:
                self._report(f"has more than {_MOST_KEYS} keys; the rest is left out")
                return
            else:
                self._read_value(found["key"], (found["value"] or "").strip())

    def _read_value(self, key: str, written: str) -> None:
        written = _without_comment(written)
        block = _BLOCK.fullmatch(written)
        if block is not None:
            self.values[key] = self._read_block(folded=block["style"] == ">")
        elif written.startswith("["):
            self.values[key] = self._read_flow(key, written)
        elif written:
            value = self._read_scalar(key, written)
            if value is not None:
                self.values[key] = value
        else:
            self.values[key] = self._read_members(key)

    def _read_scalar(self, key: str, written: str) -> str | None:
        """Return a text, with the indented lines that continue it."""
        if written[0] in "&*!{":
            self._report(f"gives {key!r} an anchor, a tag or a map; write the text itself")
            self._skip_indented()
            return None
        parts = [written]
        while self.at < len(self.lines) and self.lines[self.at][:1] in (" ", "\t"):
            parts.append(self.lines[self.at].strip())
            self.at += 1
        return _unquote(" ".join(filter(None, parts)))

    def _read_block(self, *, folded: bool) -> str:
        """Return the indented lines below, as they are or joined into paragraphs."""
        taken: list[str] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip() and line[:1] not in (" ", "\t"):
                break
            taken.append(line.rstrip())
            self.at += 1
        indents = [len(line) - len(line.lstrip()) for line in taken if line]
        lines = [line[min(indents, default=0) :] for line in taken]
        text = "\n".join(lines).strip("\n")
        return re.sub(r"(?<!\n)\n(?!\n)", " ", text) if folded else text

    def _read_flow(self, key: str, written: str) -> tuple[str, ...]:
        """Return the texts between brackets, on one line or several."""
        parts = [written]
        while not parts[-1].endswith("]") and self.at < len(self.lines):
            line = self.lines[self.at]
            if line[:1] not in (" ", "\t", "]"):
                break
            parts.append(_without_comment(line.strip()))
            self.at += 1
        text = " ".join(parts)
        if not text.endswith("]"):
            self._report(f"gives {key!r} a list without an end")
        members = _split_flow(text.removeprefix("[").removesuffix("]"))
        return self._first_members(key, [_unquote(member) for member in members])

    def _read_members(self, key: str) -> MatterValue:
        """Return what stands on the lines below: a list, names with texts, or nothing."""
        items: list[str] = []
        named: dict[str, str] = {}
        while self.at < len(self.lines):
            line = self.lines[self.at]
            bare = line.strip()
            if not bare or bare.startswith("#"):
                self.at += 1
                continue
            # A list may stand at the very left, names may not.
            if line[:1] not in (" ", "\t") and not _ITEM.fullmatch(bare):
                break
            self.at += 1
            if "\t" in line[: len(line) - len(line.lstrip())]:
                self._report(f"line {self.at + 1} is indented by a tab, which YAML does not allow")
            if item := _ITEM.fullmatch(bare):
                items.append(_unquote(_without_comment(item["value"] or "")))
            elif member := _KEY.fullmatch(bare):
                named[member["key"]] = _unquote(_without_comment(member["value"] or ""))
            else:
                self._report(_misreading(line))
        if named:
            return dict(list(named.items())[:_MOST_MEMBERS])
        return self._first_members(key, items) if items else ""

    def _first_members(self, key: str, members: list[str]) -> tuple[str, ...]:
        if len(members) > _MOST_MEMBERS:
            self._report(f"lists more than {_MOST_MEMBERS} values for {key!r}")
        return tuple(members[:_MOST_MEMBERS])

    def _skip_indented(self) -> None:
        while self.at < len(self.lines) and self.lines[self.at][:1] in (" ", "\t"):
            self.at += 1

    def _report(self, what: str) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(f"its front matter {what}")


def _misreading(line: str) -> str:
    if line[:1] == "\t":
        return "has a line that begins with a tab, which YAML does not allow"
    return f"has a line that is no `key: value`: {line.strip()[:60]!r}"


def _without_comment(written: str) -> str:
    """Return a value without a comment behind it; what is quoted has none inside."""
    if written[:1] in ("'", '"'):
        end = _closing_quote(written)
        return written[: end + 1] if end else written
    if written.startswith("#"):
        return ""
    at = written.find(" #")
    return written if at < 0 else written[:at].rstrip()


def _closing_quote(written: str) -> int:
    """Return where the quotation that opens a text ends; 0 where it does not."""
    quote, at = written[0], 1
    while at < len(written):
        if written[at] == "\\" and quote == '"':
            at += 2
        elif written[at] != quote:
            at += 1
        elif quote == "'" and written[at + 1 : at + 2] == "'":
            at += 2
        else:
            return at
    return 0


def _unquote(written: str) -> str:
    written = written.strip()
    if len(written) < 2 or written[0] not in "'\"" or written[-1] != written[0]:
        return written
    inner = written[1:-1]
    return inner.replace("''", "'") if written[0] == "'" else _ESCAPE.sub(_unescape, inner)


def _unescape(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code is None:
        return _ESCAPES.get(found[4], found[0])
    number = int(code, 16)
    is_half = 0xD800 <= number <= 0xDFFF
    return "" if is_half or number > _LAST_CHARACTER else chr(number)


def _split_flow(inner: str) -> list[str]:
    """Return the members of a list between brackets; quoted ones may have commas."""
    members = re.findall(r"""\s*("(?:\\.|[^"\\])*"|'(?:''|[^'])*'|[^,]*)(?:,|$)""", inner)
    return [member.strip() for member in members if member.strip()]
