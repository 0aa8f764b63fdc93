"""The places where agents work: a git worktree for each that wants one of its own.

Owns how a worktree is called after its agent. Invariant: an agent finds its worktree again
after a crash, and one that holds nothing is gone when the agent's end is announced.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import Struct, field

from ..core.errors import TreadleError
from ..workspace.worktrees import open_worktrees, worktree_name

__all__ = ["AgentPlaces"]

_ID = 6
_MOST_NAMED = 20


class AgentPlaces(Struct):
    """The worktrees of the agents of one thread."""

    home: Path
    cwd: Path
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def open(self, child: str, nickname: str) -> Path:
        """Return the directory of an agent's worktree. Raises `TreadleError`."""
        async with self._changing, open_worktrees(self.home, self.cwd) as worktrees:
            return (await worktrees.open(_name(child, nickname))).path

    async def settle(self, child: str, nickname: str) -> str:
        """Remove a worktree that holds nothing; of another, return what its parent is told."""
        try:
            async with self._changing, open_worktrees(self.home, self.cwd) as worktrees:
                worktree = await worktrees.find_one(_name(child, nickname))
                state = await worktrees.state(worktree)
                if state.is_empty:
                    await worktrees.remove(worktree)
                    return ""
        except TreadleError:
            return ""  # it never came to be, or git cannot be asked: the user finds it listed
        files = "".join(f"\n- {name}" for name in state.files[:_MOST_NAMED])
        more = "\n- …" if len(state.files) > _MOST_NAMED else ""
        return (
            f"Its worktree is {worktree.path}, on the branch {worktree.branch}, with "
            f"{state.summary} that no other branch has.{files}{more}"
        )


def _name(child: str, nickname: str) -> str:
    return f"{worktree_name(nickname) or 'agent'}-{child[-_ID:]}"
