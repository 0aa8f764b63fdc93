"""Work: one order, from the first turn of an agent to its last.

Owns which turn comes next, so that a start, a resumption after a crash and a message
that came late are one thing. Invariant: what an agent was told while it works is read in
this work, or the agent counts as over before it could be told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from msgspec import Struct, field

from ..core.aio import finish_uncancelled
from ..core.errors import NotFound
from ..core.items import Message
from ..core.redact import redact
from ..core.service import Service, later
from ..harness.events import AgentReported, TurnCompleted
from ..prompt.input import user_message
from ..store.contract import ENDED_STATES, InboxDraft, Store
from .mail import instructed
from .values import Child, Opener, Order

__all__ = ["Work"]


class _Turn(Struct, frozen=True):
    """A turn to run: on a message, or on what waits for the agent."""

    id: str | None = None
    said: Message | None = None


class Work(Service):
    """An agent at work on an order."""

    order: Order
    parent: str
    store: Store
    opened: Opener
    hear: Callable[[AgentReported], None]
    failure: str = ""
    """Why it could not go on, if it could not."""
    task: asyncio.Task[None] = later()
    """Runs it; done when it was announced."""
    child: Child | None = None
    _stopped: bool = False
    _over: bool = False
    _deciding: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from looking at what waits to the decision that nothing does."""

    async def run(self) -> None:
        """Carry the order out. What goes wrong is left in `failure`."""
        try:
            if await self._next() is not None:
                async with self.opened(self.order.child) as self.child:
                    await self._turns(self.child)
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent is told
            self.failure = redact(str(error)) or type(error).__name__
        finally:
            self.child, self._over = None, True

    async def unfinished(self) -> bool:
        """Whether there is a turn to run."""
        try:
            return await self._found() is not None
        except NotFound:
            return False

    async def tell(self, message: InboxDraft, *, interrupt: bool) -> bool:
        """Leave a message that this work still reads; False when it is over."""
        async with self._deciding:
            if self._over:
                return False
            if interrupt and self.child is not None:
                # Before the message is there, so that the turn cannot take it along.
                self.child.interrupt()
            await finish_uncancelled(self.store.post(self.order.child, message))
            return True

    def stop(self) -> None:
        """Break it off; a turn under way ends as interrupted."""
        self._stopped = True
        if self.child is not None:
            self.child.interrupt()

    async def _turns(self, child: Child) -> None:
        while (turn := await self._next()) is not None:
            said = () if turn.said is None else (turn.said,)
            provenance = instructed(self.parent, self.order.tool) if said else None
            running = child.run(*said, turn_id=turn.id, provenance=provenance)
            async with aclosing(running) as events:
                async for event in events:
                    self.hear(
                        AgentReported(
                            thread=self.order.child, nickname=self.order.nickname, event=event
                        )
                    )
                    if isinstance(event, TurnCompleted) and event.status == "failed":
                        self.failure = event.error or "its turn failed"

    async def _next(self) -> _Turn | None:
        async with self._deciding:
            found = None if self._ending else await self._found()
            # Looked at again: there was no turn yet that could be interrupted meanwhile.
            turn = None if self._ending else found
            self._over = turn is None
            return turn

    @property
    def _ending(self) -> bool:
        return self._stopped or bool(self.failure)

    async def _found(self) -> _Turn | None:
        """The turn to run next, as the log of the agent has it."""
        turns = {turn.id: turn for turn in await self.store.turns(self.order.child)}
        first = turns.get(self.order.turn)
        if first is None or first.state not in ENDED_STATES:
            return _Turn(self.order.turn, user_message(self.order.message))
        newest = list(turns.values())[-1]
        if newest.state not in ENDED_STATES:
            return _Turn(newest.id)
        waiting = await self.store.inbox(self.order.child)
        return _Turn() if any(message.kind == "input" for message in waiting) else None
