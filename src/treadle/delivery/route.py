"""Where a reply goes: back to where the turn came from, to the host, or nowhere.

Invariant: the way is decided from values alone, and a reply that is dropped says why.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from .payload import Reply, is_silent

__all__ = ["Origin", "Route", "Way", "resolve_route"]

Way: TypeAlias = Literal["origin", "dispatcher", "drop"]


class Origin(Struct, frozen=True, omit_defaults=True):
    """Where a turn came from."""

    channel: str = ""
    """The name of a channel."""
    to: str = ""
    """Whom to answer there, as the channel names it."""
    routable: bool = True
    """Whether that channel can be written to from here."""

    @property
    def is_complete(self) -> bool:
        """Whether a reply can be sent back."""
        return bool(self.channel and self.to and self.routable)


class Route(Struct, frozen=True):
    """The way of one reply."""

    way: Way
    reason: str = ""


def resolve_route(
    reply: Reply, origin: Origin | None, *, dispatcher_available: bool, wish: Way | None = None
) -> Route:
    """The way of `reply`: its origin where that is known in full, else the dispatcher.

    `wish` is what whoever owns the channel prefers; it is followed where it can be.
    """
    if is_silent(reply) or reply.is_empty:
        return Route("drop", "silent")
    if wish == "drop":
        return Route("drop", "channel")
    can_return = origin is not None and origin.is_complete
    if can_return and not (wish == "dispatcher" and dispatcher_available):
        return Route("origin")
    if dispatcher_available:
        return Route("dispatcher", "channel" if wish == "dispatcher" else "origin-incomplete")
    return Route("drop", "no-route")
