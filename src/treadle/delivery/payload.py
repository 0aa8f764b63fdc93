"""Replies: what a turn has to say to somebody.

Owns the value that travels from a turn to a channel. Invariant: a reply that carries
anything besides a silent text is not silent, and a medium is carried once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, structs

from ..core.wire import Json
from .media import read_directives
from .silent import NO_REPLY, is_artifact, is_silent_text, strip_token

__all__ = ["Reply", "ReplyKind", "each_once", "final_reply", "is_silent", "prepared"]

ReplyKind: TypeAlias = Literal["final", "block", "status"]
"""The answer of a turn, a part that came before it, or a word on how things stand."""


class Reply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to tell."""

    text: str = ""
    media: tuple[str, ...] = ()
    """URLs and paths of what is shown or played, in order."""
    content: Json | UnsetType = UNSET
    """What only some channels can show: cards, choices, their own data."""
    kind: ReplyKind = "final"
    is_error: bool = False
    is_reasoning: bool = False
    reply_to: str = ""
    """The message that this answers, as the channel names it; ``current`` for the last one."""
    as_voice: bool = False
    always: bool = False
    """Told although what the turn says itself is kept private."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it at all."""
        return not (self.text.strip() or self.media or self.content is not UNSET)


def is_silent(reply: Reply, token: str = NO_REPLY) -> bool:
    """Whether nobody should hear of this reply: its text is silent and it carries no more."""
    if reply.media or reply.content is not UNSET:
        return False
    return is_silent_text(reply.text, token) or is_artifact(reply.text)


def final_reply(
    text: str, *, token: str = NO_REPLY, readable: Callable[[str], bool] | None = None
) -> Reply:
    """The reply that a model's last words are, with the media and the marks they name.

    `readable` says which local files may be sent; without it none.
    """
    if is_silent_text(text, token):
        return Reply(text=text)
    said = read_directives(text, readable)
    return Reply(text=said.text, media=said.media, reply_to=said.reply_to, as_voice=said.as_voice)


def prepared(replies: Iterable[Reply], token: str = NO_REPLY) -> tuple[Reply, ...]:
    """What is left to tell of these, in order: no silence, no tokens, no medium twice."""
    heard = (_spoken(reply, token) for reply in replies)
    return tuple(each_once(reply for reply in heard if not reply.is_empty))


def _spoken(reply: Reply, token: str) -> Reply:
    if is_silent_text(reply.text, token) or is_artifact(reply.text):
        return structs.replace(reply, text="")
    text = strip_token(reply.text, token) if reply.text.strip() else ""
    return reply if text == reply.text.strip() else structs.replace(reply, text=text)


def each_once(replies: Iterable[Reply], sent: Iterable[str] = ()) -> list[Reply]:
    """The replies without media that earlier ones, or `sent`, have carried."""
    seen, result = set(sent), []
    for reply in replies:
        fresh = tuple(ref for ref in dict.fromkeys(reply.media) if ref not in seen)
        seen.update(fresh)
        left = reply if fresh == reply.media else structs.replace(reply, media=fresh)
        if not left.is_empty:
            result.append(left)
    return result
