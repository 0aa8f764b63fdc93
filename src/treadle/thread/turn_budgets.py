"""The budgets of a thread's turns: which one holds, and what was spent of it before.

Owns when a turn gets a budget of its own. Invariants: a turn about what agents have to tell
goes on with the budget of the turn that started them; what a turn spent before a crash
counts when it is taken up again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..context.view import load_view
from ..core.entries import Entry, ResponseMark
from ..core.errors import NotFound
from ..core.usage import TokenUsage
from ..harness.budget import Budget
from ..policy.limits import Limits, Spent
from ..store.contract import ENDED_STATES
from ..subagents.records import agent_records

if TYPE_CHECKING:
    from ..log.thread_log import ThreadLog
    from ..policy.pricing import Pricing
    from ..store.contract import Store, Turn

__all__ = ["TurnBudgets"]

_PAGE = 512


class TurnBudgets:
    """The budgets of the turns of one thread."""

    def __init__(self, log: ThreadLog, limits: Limits, starter: Budget | None = None) -> None:
        self.present = Budget(starter=starter)
        """The budget of the present turn, or of the newest one."""
        self.has_begun = False
        """Whether there was a turn."""
        self._log = log
        self._limits = limits
        self._starter = starter
        self._pricing: Pricing | None = None
        """How what was spent before is charged."""

    def begin(self, limits: Limits | None) -> None:
        """Give the turn that begins a budget of its own, with these limits or the usual ones."""
        self.has_begun = True
        self.present = Budget(self._limits if limits is None else limits, self._starter)

    async def restore(self, turn_id: str, pricing: Pricing | None) -> None:
        """Count what a turn, and its agents, spent before the process ended that ran it.

        All of it is charged by the present price.
        """
        log = self._log
        self._pricing = pricing
        if self.present.limits == Limits():
            return
        turns = {turn.id: turn for turn in await log.store.turns(log.id)}
        turn = turns.get(turn_id)
        if turn is not None and turn.state not in ENDED_STATES:
            self.present.spent = await self._spent(turn)
            self.present.currency = pricing.currency if pricing else ""

    @contextmanager
    def standing_still(self) -> Generator[None, None, None]:
        """Let no time pass while the user is asked."""
        with self.present.standing_still():
            yield

    async def _spent(self, turn: Turn) -> Spent:
        log = self._log
        newest, spent = turn.admitted, Spent()
        async for entry in _entries(log.store, log.id, turn.first):
            if entry.turn == turn.number:
                newest, spent = max(newest, entry.time), spent + self._spent_by(entry)
        agents = await self._spent_by_agents(log.id, turn.admitted)
        return spent + agents + Spent(seconds=(newest - turn.admitted) / 1_000)

    async def _spent_by_agents(self, thread: str, since: int) -> Spent:
        """Return what the agents of a thread have spent, and theirs."""
        log, spent = self._log, Spent()
        view = await load_view(log.store, thread, log.registry)
        for child in agent_records(view.settings, thread):
            try:
                # A fork's log begins with its parent's.
                first = (await log.store.lineage(child))[-1].first
                async for entry in _entries(log.store, child, first):
                    if entry.time >= since:
                        spent += self._spent_by(entry)
                spent += await self._spent_by_agents(child, since)
            except NotFound:
                continue  # a thread that was deleted has nothing left to count
        return spent

    def _spent_by(self, entry: Entry) -> Spent:
        mark = entry.control if entry.kind == "response" else None
        if not isinstance(mark, ResponseMark):
            return Spent()
        usage = mark.usage or TokenUsage()
        cost = self._pricing.cost(usage) if self._pricing is not None else None
        return Spent(
            steps=int(mark.status == "completed" and not mark.purpose),
            tokens=usage.total_tokens,
            cost=cost.amount if cost else 0.0,
        )


async def _entries(store: Store, thread: str, first: int) -> AsyncIterator[Entry]:
    while page := await store.read(thread, first, limit=_PAGE):
        for entry in page:
            yield entry
        first = page[-1].seq + 1
