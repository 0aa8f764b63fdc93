"""Replies: from the text of a model's last message to what is delivered.

Owns ``MEDIA:`` lines and the ``[[…]]`` marks. Invariants: a line that names nothing which may
be sent stays in the text as it is; nothing inside code is read; a reply with any content
besides a silent text is not silent; and a medium is delivered once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import UNSET, Struct, structs

from .channel import NO_REPLY, Reply
from .silence import is_artifact, is_silent_text, strip_token

__all__ = [
    "Directives",
    "final_reply",
    "is_public_url",
    "is_silent",
    "parse_directives",
    "visible_replies",
    "without_repeated_media",
]

_LINE = re.compile(r" {0,3}MEDIA:[ \t]*(\S.*?)[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_QUOTES = {'"': '"', "'": "'", "`": "`"}
_TRAILING = ".,;:!?)]}>"
_MARK = re.compile(r"\[\[\s*(audio_as_voice|reply_to_current|reply_to\s*:\s*([^\[\]\n]+?))\s*\]\]")
_INLINE_CODE = re.compile(r"(?<!`)(`{1,2})(?!`)[^`\n]+\1(?!`)")
_NOT_PUBLIC = ("localhost", "local", "internal", "home.arpa", "lan")


def is_silent(reply: Reply, token: str = NO_REPLY) -> bool:
    """Return whether a reply is not delivered: its text is silent and it has no other content."""
    if reply.media or reply.content is not UNSET:
        return False
    return is_silent_text(reply.text, token) or is_artifact(reply.text)


def final_reply(
    text: str, *, token: str = NO_REPLY, readable: Callable[[str], bool] | None = None
) -> Reply:
    """Return the reply of a model's last message, with the media and marks in its text.

    `readable` decides which local files may be sent; without it none.
    """
    if is_silent_text(text, token):
        return Reply(text=text)
    found = parse_directives(text, readable)
    return Reply(
        text=found.text, media=found.media, reply_to=found.reply_to, as_voice=found.as_voice
    )


def visible_replies(replies: Iterable[Reply], token: str = NO_REPLY) -> tuple[Reply, ...]:
    """Return what is left to deliver, in order: no silence, no tokens, no medium twice."""
    cleaned = (_without_token(reply, token) for reply in replies)
    return tuple(without_repeated_media(reply for reply in cleaned if not reply.is_empty))


def _without_token(reply: Reply, token: str) -> Reply:
    if is_silent_text(reply.text, token) or is_artifact(reply.text):
        return structs.replace(reply, text="")
    text = strip_token(reply.text, token) if reply.text.strip() else ""
    return reply if text == reply.text.strip() else structs.replace(reply, text=text)


def without_repeated_media(replies: Iterable[Reply], sent: Iterable[str] = ()) -> list[Reply]:
    """Return the replies without the media of earlier ones or of `sent`."""
    seen, result = set(sent), []
    for reply in replies:
        fresh = tuple(ref for ref in dict.fromkeys(reply.media) if ref not in seen)
        seen.update(fresh)
        left = reply if fresh == reply.media else structs.replace(reply, media=fresh)
        if not left.is_empty:
            result.append(left)
    return result


class Directives(Struct, frozen=True):
    """The text of an answer, and what its lines and marks say to the channel."""

    text: str
    media: tuple[str, ...] = ()
    reply_to: str = ""
    as_voice: bool = False


def parse_directives(text: str, readable: Callable[[str], bool] | None = None) -> Directives:
    """Return `text` without the lines and marks for the channel, and what they say.

    `readable` decides on local paths; without it no path is sent.
    """
    kept: list[str] = []
    media: list[str] = []
    marks: list[re.Match[str]] = []
    fence = ""
    for line in text.split("\n"):
        fence, in_code = _next_fence(line, fence)
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
    """Return whether `url` is an https address that is not obviously in a private network."""
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


def _next_fence(line: str, fence: str) -> tuple[str, bool]:
    """Return the fence that is open after `line`, and whether the line belongs to code."""
    found = _FENCE.fullmatch(line)
    if not fence:
        return (found[1], True) if found else ("", False)
    closes = found is not None and found[1].startswith(fence) and not found[2].strip()
    return ("" if closes else fence), True


def _reference(line: str, readable: Callable[[str], bool] | None) -> str | None:
    """Return the reference of a media line, if it may be sent."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    ref = _strip_quotes(found[1])
    if not ref:
        return None
    if "://" in ref:
        return ref if is_public_url(ref) else None
    return ref if readable is not None and readable(ref) else None


def _strip_quotes(written: str) -> str:
    """Return a reference without its quotes, or without the sentence's marks after it."""
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
