"""Child threads: the threads of the agents that one thread starts.

Owns how they are opened and where they work. Invariants: a child has the model, the tools and no
more rights than its parent; what it changes counts as changed by all who started it, and what it
uses counts for their limits too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from ..core.home import home as default_home
from .agents import acts_elsewhere
from .opening import child_options

if TYPE_CHECKING:
    from ..harness.budget import Budget
    from ..log.thread_log import ThreadLog
    from ..subagents import Subagents
    from ..subagents.records import AgentRecord
    from ..workspace.windows import Owner
    from .agent_places import AgentPlaces
    from .options import ThreadOptions
    from .policy import ThreadPolicy
    from .thread import Thread
    from .turn import TurnRunner

__all__ = ["Ancestry", "ChildThreads", "OpenThreadWith"]


class Ancestry(Struct, frozen=True):
    """Who started a thread as an agent; nobody, where a host opened it."""

    owners: Callable[[], tuple[Owner, ...]] = tuple
    """The threads above it, and how far they have come."""
    budget: Budget | None = None
    """That of the turn that started it."""


class OpenThreadWith(Protocol):
    """Opens a thread for writing, as `Thread.open_with` does."""

    def __call__(
        self, options: ThreadOptions, thread: str | None, *, ancestry: Ancestry
    ) -> AbstractAsyncContextManager[Thread]:
        """Open it."""
        ...


class ChildThreads:
    """The threads of one thread's agents."""

    def __init__(
        self,
        log: ThreadLog,
        policy: ThreadPolicy,
        subagents: Subagents,
        *,
        ancestry: Ancestry,
        runner: Callable[[], TurnRunner],
        open_with: OpenThreadWith,
    ) -> None:
        self.ancestry = ancestry
        """Who started the thread itself."""
        self._log, self._policy, self._subagents = log, policy, subagents
        self._runner, self._open_with = runner, open_with
        self._places: AgentPlaces | None = None

    def owners(self) -> tuple[Owner, ...]:
        """Return whose changes the tools make now: this thread's, and those who started it."""
        from ..workspace.windows import Owner

        return Owner(self._log.id, self._log.view.upto), *self.ancestry.owners()

    @asynccontextmanager
    async def open(self, child: str) -> AsyncIterator[Thread]:
        """Open an agent's thread."""
        from ..subagents import SharedExecutor

        definition, runner = self._subagents.definition_of(child), self._runner()
        # Agents act through this thread's executor where it is not that of this machine.
        elsewhere = acts_elsewhere(self._policy)
        shared = SharedExecutor(runner.executor) if elsewhere else "local"
        options = child_options(self._policy, self._log, shared, definition)
        if definition is not None and definition.worktree:
            nickname = self._subagents.records[child].nickname
            options = options.with_changes(cwd=await self._worktrees().open(child, nickname))
        ancestry = Ancestry(self.owners, runner.budgets.present)
        async with self._open_with(options, child, ancestry=ancestry) as opened:
            yield opened

    async def settle(self, child: str, record: AgentRecord) -> str:
        """Remove the worktree of an agent if it holds nothing; else return what is told of it."""
        return await self._worktrees().settle(child, record.nickname)

    def _worktrees(self) -> AgentPlaces:
        """Return the worktrees of agents that work in one of their own."""
        if self._places is None:
            from .agent_places import AgentPlaces

            home = self._log.setup.home or default_home()
            self._places = AgentPlaces(home, self._log.setup.cwd)
        return self._places
