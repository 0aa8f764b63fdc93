"""Channels: the protocol that carries a reply out of Treadle, and the values it uses.

`treadle.testing.contracts` has the suite that shows whether a channel keeps the contract.
Invariant: one delivery has one key for ever, however often and from whichever process it
is tried.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import UNSET, Struct, UnsetType

from ..core.wire import Json

__all__ = [
    "NO_REPLY",
    "Channel",
    "Delivery",
    "HoldingChannel",
    "Receipt",
    "ReceiptState",
    "Reply",
    "ReplyKind",
    "ReplyOrigin",
    "ReplyPolicy",
]

NO_REPLY = "NO_REPLY"
"""The token that a model answers when nobody should get a reply."""

ReplyKind: TypeAlias = Literal["final", "block", "status"]
"""The answer of a turn, a part that came before it, or a message about its status."""

ReceiptState: TypeAlias = Literal["delivered", "held", "failed", "refused"]


class Reply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message to deliver."""

    text: str = ""
    media: tuple[str, ...] = ()
    """URLs and paths of media to show or play, in order."""
    content: Json | UnsetType = UNSET
    """Content that only some channels can show: cards, choices, their own data."""
    kind: ReplyKind = "final"
    is_error: bool = False
    reply_to: str = ""
    """The message that this answers, as the channel names it; ``current`` for the last one."""
    as_voice: bool = False
    always: bool = False
    """Delivered although the turn's own text is not."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no content at all."""
        return not (self.text.strip() or self.media or self.content is not UNSET)


class ReplyOrigin(Struct, frozen=True, omit_defaults=True):
    """Where a turn came from, and so where its reply goes."""

    channel: str = ""
    """The name of a channel."""
    to: str = ""
    """The receiver there, as the channel names it."""
    routable: bool = True
    """Whether this process can write to that channel."""

    @property
    def is_complete(self) -> bool:
        """Whether a reply can be sent back."""
        return bool(self.channel and self.to and self.routable)


class ReplyPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a host wants delivered of the turns of a thread."""

    sends: Literal["allow", "deny"] = "allow"
    visible: Literal["automatic", "tool-only"] = "automatic"
    """Whether the model's text is delivered, or only what it sends by a tool."""
    expected: Literal["required", "optional"] = "required"
    """Whether somebody waits for an answer, and hears it when there is none."""
    token: str = NO_REPLY
    """What a model answers when nobody should get a reply."""


class Delivery(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reply on its way to a channel."""

    key: str
    """Thread, turn and kind: the same for every attempt."""
    thread: str
    turn: int
    to: str = ""
    """The receiver, as the channel names it."""
    reply: Reply


class Receipt(Struct, frozen=True):
    """The result of an attempt.

    ``held``: the channel has it, and the receiver will acknowledge it. ``failed``: nobody
    has seen it, and a later attempt may succeed. ``refused``: none will.
    """

    state: ReceiptState
    detail: str = ""
    """Why it failed, for a person; without secrets."""
    retry_after: float | None = None
    """Seconds that the receiver asked us to wait."""


class Channel(Protocol):
    """Sends replies to a receiver.

    `deliver` is called for one delivery of a thread at a time, in order; several threads may
    deliver at once. It returns a receipt; an exception counts as ``failed`` if the channel
    recognises repeats, otherwise the result is unknown. It may be called again with the same
    key, after a crash of Treadle or of the network. Never put a secret into a receipt or an
    error.
    """

    @property
    def kind(self) -> str:
        """The kind of channel, such as ``terminal``."""
        ...

    @property
    def deduplicates(self) -> bool:
        """Whether a key that comes twice is shown once, here or by the receiver.

        Deliveries to a channel that does not are tried once, and never again after a crash
        in the middle of the attempt.
        """
        ...

    async def deliver(self, delivery: Delivery, /) -> Receipt:
        """Send one delivery."""
        ...


@runtime_checkable
class HoldingChannel(Protocol):
    """A channel whose deliveries are done when somebody acknowledges them.

    It serves the threads that are open in its process, and no others.
    """

    def bind(self, acknowledge: Callable[[Delivery], Awaitable[None]], /) -> None:
        """Call `acknowledge`, and wait for it, when a delivery was acknowledged."""
        ...

    def withdraw(self, thread: str, /) -> None:
        """Forget the deliveries of a closed thread that nobody has taken yet."""
        ...
