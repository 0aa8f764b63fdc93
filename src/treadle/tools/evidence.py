"""Evidence: what calls have told others, and what they have made for a reply.

Owns the values in which tools say so. Invariant: evidence is taken from what a tool itself
returned; no hook adds to it or takes any of it away.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Media", "Sent", "Target"]


class Target(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whom something was sent to."""

    channel: str
    """The name of a channel."""
    to: str = ""
    """The receiver, as the channel names it."""
    thread: str = ""
    """The conversation there, where a channel has several."""

    def __str__(self) -> str:
        return ":".join(part for part in (self.channel, self.to, self.thread) if part)


class Sent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message that has left."""

    target: Target
    text: str = ""
    media: tuple[str, ...] = ()
    """URLs and paths of what went with it, in order."""
    message_id: str = ""
    """The channel's own proof that it has it."""


class Media(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something to show or play that a call has made."""

    url: str
    as_voice: bool = False
