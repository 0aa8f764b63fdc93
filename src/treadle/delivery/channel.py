"""The channel seam: what carries a reply out of Treadle.

Owns the `Channel` Protocol and the values it speaks. `treadle.testing.contracts` has the suite
that shows whether a channel keeps it. Invariant: one delivery has one key for ever, however
often and from whichever process it is tried.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from .payload import Reply

__all__ = ["Channel", "Delivery", "Holds", "Receipt", "ReceiptState"]

ReceiptState: TypeAlias = Literal["delivered", "held", "failed", "refused"]


class Delivery(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reply on its way."""

    key: str
    """Thread, turn and kind: the same for every attempt."""
    thread: str
    turn: int
    to: str = ""
    """Whom it is for, as the channel names it."""
    reply: Reply


class Receipt(Struct, frozen=True):
    """What became of an attempt.

    ``held``: the channel has it, and whoever takes it will acknowledge it. ``failed``: nobody
    has seen it, and a later attempt may succeed. ``refused``: none will.
    """

    state: ReceiptState
    detail: str = ""
    """Why not, for a person; without secrets."""
    retry_after: float | None = None
    """Seconds that the other side asked us to wait."""


class Channel(Protocol):
    """Carries replies to somebody.

    `deliver` is called for one delivery of a thread at a time, in order; several threads may
    deliver at once. It answers with a receipt; what it raises counts as ``failed`` where
    repeats are recognised, and is left in doubt where they are not. It may be called again
    with a key it has seen, after a crash of ours or of the network. Never put a secret into
    a receipt or an error.
    """

    @property
    def kind(self) -> str:
        """What sort of channel it is, such as ``terminal``."""
        ...

    @property
    def deduplicates(self) -> bool:
        """Whether a key that comes twice is shown once, here or by the receiver.

        Deliveries to a channel that does not are tried once, and never again after a crash
        in the middle of the attempt.
        """
        ...

    async def deliver(self, delivery: Delivery, /) -> Receipt:
        """Carry one delivery."""
        ...


@runtime_checkable
class Holds(Protocol):
    """A channel whose deliveries are done when somebody acknowledges them.

    It serves the threads that are open in its process, and no others.
    """

    def bind(self, acknowledge: Callable[[Delivery], Awaitable[None]], /) -> None:
        """Call this, and wait for it, when a delivery was acknowledged."""
        ...

    def withdraw(self, thread: str, /) -> None:
        """Forget what nobody has taken yet of a thread that is closed here."""
        ...
