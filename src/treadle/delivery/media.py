"""Media lines and marks: what a model writes into its last words for the channel.

Owns ``MEDIA:`` lines and the ``[[…]]`` marks. Invariant: a line that names nothing which may
be sent stays in the text as it is, and nothing inside code is ever read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct

from ..core.patterns import regex

__all__ = ["Directives", "is_public_url", "read_directives"]

_LINE = regex(r" {0,3}MEDIA:[ \t]*(\S.*?)[ \t]*")
_FENCE = regex(r" {0,3}(`{3,}|~{3,})(.*)")
_QUOTES = {'"': '"', "'": "'", "`": "`"}
_TRAILING = ".,;:!?)]}>"
_MARK = regex(r"\[\[\s*(audio_as_voice|reply_to_current|reply_to\s*:\s*([^\[\]\n]+?))\s*\]\]")
_INLINE_CODE = regex(r"(?<!`)(`{1,2})(?!`)[^`\n]+\1(?!`)")
_NOT_PUBLIC = ("localhost", "local", "internal", "home.arpa", "lan")


class Directives(Struct, frozen=True):
    """Last words, taken apart."""

    text: str
    media: tuple[str, ...] = ()
    reply_to: str = ""
    as_voice: bool = False


def read_directives(text: str, readable: Callable[[str], bool] | None = None) -> Directives:
    """`text` without the lines and marks that are meant for the channel, and what they say.

    `readable` decides on local paths; without it no path is sent.
    """
    kept: list[str] = []
    media: list[str] = []
    marks: list[re.Match[str]] = []
    fence = ""
    for line in text.split("\n"):
        fence, in_code = _fenced(line, fence)
        if in_code or line.startswith(("    ", "\t")):
            kept.append(line)
        elif (ref := _reference(line, readable)) is not None:
            media.append(ref)
        else:
            kept.append(_without_marks(line, marks))
    if not media and not marks:
        return Directives(text)
    targets = [mark[2] or "current" for mark in marks if mark[1].startswith("reply_to")]
    return Directives(
        "\n".join(kept).strip(),
        tuple(dict.fromkeys(media)),
        targets[-1] if targets else "",
        any(mark[1] == "audio_as_voice" for mark in marks),
    )


def is_public_url(url: str) -> bool:
    """Whether `url` is an https address that does not obviously lie in a private network."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return False
    if parts.scheme != "https" or not host or "@" in parts.netloc or re.search(r"\s", url):
        return False
    try:
        return ip_address(host).is_global
    except ValueError:
        # Numbers alone are addresses in one of their old spellings.
        labels = host.split(".")
        is_named = len(labels) > 1 and not re.fullmatch(r"(?:0x)?[0-9a-f]*[0-9]", labels[-1])
        return is_named and not any(host.endswith(f".{zone}") for zone in _NOT_PUBLIC)


def _fenced(line: str, fence: str) -> tuple[str, bool]:
    """The fence that is open behind `line`, and whether the line belongs to code."""
    found = _FENCE.fullmatch(line)
    if not fence:
        return (found[1], True) if found else ("", False)
    closes = found is not None and found[1].startswith(fence) and not found[2].strip()
    return ("" if closes else fence), True


def _reference(line: str, readable: Callable[[str], bool] | None) -> str | None:
    """What a media line names, if that may be sent."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    ref = _unquoted(found[1])
    if not ref:
        return None
    if "://" in ref:
        return ref if is_public_url(ref) else None
    return ref if readable is not None and readable(ref) else None


def _unquoted(written: str) -> str:
    """A reference out of its quotes; without quotes the sentence's own marks are not part of it."""
    closing = _QUOTES.get(written[0])
    if closing is not None and len(written) > 2 and written[-1] == closing:
        return written[1:-1]
    bare = written.rstrip(_TRAILING)
    return "" if re.search(r"\s", bare) else bare


def _without_marks(line: str, marks: list[re.Match[str]]) -> str:
    code = [found.span() for found in _INLINE_CODE.finditer(line)]

    def take(mark: re.Match[str]) -> str:
        if any(first <= mark.start() < last for first, last in code):
            return mark[0]
        marks.append(mark)
        return ""

    cleared = _MARK.sub(take, line)
    return line if cleared == line else cleared.strip()
