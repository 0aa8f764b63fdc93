"""From a turn that has ended to the replies that it owes.

Invariant: a turn's row becomes the rows of its replies in one transaction, or stays.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from msgspec import Struct, structs

from ..core.errors import StoreCorrupt, StoreTooNew
from ..store.contract import OutboxRow, Store
from .attempt import Writer
from .decision import Deliver, Retry, Suppress, decide
from .outbox import OwedTurn, moved, owed_rows
from .payload import Reply
from .reports import Aside, Drained
from .route import resolve_route
from .telling import turn_facts

__all__ = ["Unfolding"]

_UNSENT = "its answer was sent by no tool; run the turn again, or tell it yourself"


class _Addressed(Struct, frozen=True):
    """Replies with their channels, and those that have none."""

    replies: tuple[tuple[Reply, str, str], ...]
    lost: tuple[str, ...] = ()


class Unfolding(Struct):
    """Makes rows of replies out of rows of turns."""

    store: Store
    known: Container[str]
    """The channels that this process has."""
    readable: Callable[[str], bool] | None = None

    def can(self, owed: OwedTurn) -> bool:
        """Whether this process knows where the turn's replies go, or that they go nowhere."""
        named = [name for name in (owed.origin.channel, owed.dispatcher) if name]
        return not named or any(name in self.known for name in named)

    async def unfold(self, row: OutboxRow, owed: OwedTurn, writer: Writer) -> Drained:
        """Put what a turn owes into the outbox, in its place."""
        try:
            facts = await turn_facts(self.store, row.thread, owed, self.readable)
        except (StoreCorrupt, StoreTooNew) as error:
            return await self.put_aside(row, str(error), writer)
        match decide(facts):
            case Suppress():
                await writer.queue(settle=(row.number,))
                return Drained(suppressed=1)
            case Retry():
                return await self.put_aside(row, _UNSENT, writer)
            case Deliver(replies):
                addressed = self._addressed(owed, replies)
                rows = owed_rows(row.thread, owed.turn, addressed.replies)
                await writer.queue(*rows, settle=(row.number,))
                lost = tuple(Aside(row.key, reason) for reason in addressed.lost)
                return Drained(unrouted=lost)

    async def put_aside(self, row: OutboxRow, reason: str, writer: Writer) -> Drained:
        """Keep a row that cannot be unfolded, with the reason."""
        await self.store.retry(row.number, reason)
        await writer.queue(moved(row, "blocked"))
        return Drained(aside=(Aside(row.key, reason),))

    def _addressed(self, owed: OwedTurn, replies: tuple[Reply, ...]) -> _Addressed:
        origin = structs.replace(
            owed.origin, routable=owed.origin.routable and owed.origin.channel in self.known
        )
        found: list[tuple[Reply, str, str]] = []
        lost: list[str] = []
        for reply in replies:
            route = resolve_route(reply, origin, dispatcher_available=owed.dispatcher in self.known)
            if route.way == "origin":
                found.append((reply, origin.channel, origin.to))
            elif route.way == "dispatcher":
                found.append((reply, owed.dispatcher, ""))
            else:
                lost.append(route.reason)
        return _Addressed(tuple(found), tuple(lost))
