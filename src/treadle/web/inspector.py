"""The inspector: what shows a home, put together.

Owns the parts behind the API. Invariant: they share one home, which is only looked at; who may
act is given apart.
"""

from __future__ import annotations

import msgspec

from ..context.visible import hidden_stretches
from ..core.entries import Entry
from ..core.errors import NotFound
from .agent_tree import ShownAgents
from .compare import ShownComparisons
from .controlled_turns import ControlledHome, ControlledTurns
from .epoch_views import ShownEpochs
from .home_changes import Following
from .inspected_home import ShownHome
from .ledger_views import ShownLedger
from .plans import ShownPlans
from .request_diff import ShownDiffs
from .request_views import ShownRequests
from .search_copy import ShownRecall
from .spent import ThreadSpending
from .state import ShownState
from .summaries import ShownSummaries
from .thread_list import ShownThreads
from .turn_views import ShownTurns
from .window import ShownWindows

__all__ = ["Inspector"]


class Inspector:
    """Shows one home; with `control` it can also act."""

    def __init__(self, home: ShownHome, control: ControlledHome | None = None) -> None:
        self.home = home
        self.following = Following(home)
        self.spending = ThreadSpending(home, self.following.changed)
        self.threads = ShownThreads(home, self.spending)
        self.ledger = ShownLedger(home)
        self.epochs = ShownEpochs(home, self.ledger)
        self.turns = ShownTurns(home, self.ledger)
        self.requests = ShownRequests(home)
        self.diffs = ShownDiffs(home, self.requests, self.ledger)
        self.windows = ShownWindows(home, self.requests)
        self.summaries = ShownSummaries(home, self.requests)
        self.state = ShownState(home)
        self.agents = ShownAgents(home, self.threads)
        self.plans = ShownPlans(home, self.ledger)
        self.comparisons = ShownComparisons(home, self.threads, self.turns)
        self.recall = ShownRecall(home)
        self.live = (
            ControlledTurns(control, self.following.publish) if control is not None else None
        )

    @property
    def control(self) -> bool:
        """Whether it can act."""
        return self.live is not None

    async def entry(self, thread: str, seq: int) -> tuple[Entry, bool]:
        """Return an entry, and whether it still counts."""
        info = await self.home.thread(thread)
        found = await self.home.store.read(info.id, seq, seq) if seq <= info.last else []
        if not found:
            raise NotFound("entry", seq, f"the thread has entries 1 to {info.last}")
        hidden = await hidden_stretches(self.home.store, info.id)
        return found[0], not any(first <= seq <= last for first, last in hidden)

    async def plan(self, thread: str, turn: int | None) -> dict[str, object]:
        """Return the plan of a turn: of one that runs here as it was decided."""
        found = await self.plans.plan(thread, turn)
        live = self.live.find(thread) if self.live is not None and turn is None else None
        decided = live.plan if live is not None else None
        return found if decided is None else {**found, "plan": msgspec.to_builtins(decided)}

    async def close(self) -> None:
        """End the turns that run here, stop what counts and follows, and close the home."""
        if self.live is not None:
            await self.live.close()
        await self.following.close()
        await self.recall.close()
        await self.spending.close()
        await self.home.close()
