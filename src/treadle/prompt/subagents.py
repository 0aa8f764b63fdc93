"""Subagents: which agents this thread started, and what became of one.

Owns `<subagents>` and `<subagent_notification>`. Invariant: the list is told
whole whenever it changes; a notification is said once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..core.wire import json_bytes
from .fragment import Fragment, FragmentRole, Markers
from .observation import PromptContext, Subagent
from .state import Absent, Known, StateFragment, Unrecorded

__all__ = ["SubagentNotification", "SubagentsFragment", "SubagentsState"]


class SubagentsFragment(Fragment, frozen=True):
    """The agents that can be spoken to now."""

    id: ClassVar[str] = "subagents"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<subagents>", "</subagents>")
    cap_tokens: ClassVar[int] = 1_000

    agents: tuple[Subagent, ...] = ()

    def body(self) -> str:
        """One line an agent."""
        lines = [f"- {agent.ref}: {agent.nickname}" for agent in self.agents]
        return "\n" + "\n".join(lines or ["No agents are left."]) + "\n"


class SubagentsState(StateFragment[tuple[Subagent, ...]]):
    """Tells which agents there are."""

    id = SubagentsFragment.id
    snapshot_type = tuple[Subagent, ...]
    fragments = (SubagentsFragment,)

    def snapshot(self, ctx: PromptContext) -> tuple[Subagent, ...] | None:
        """The agents of `ctx`."""
        return ctx.subagents or None

    def difference(
        self,
        _previous: Absent | Unrecorded | Known[tuple[Subagent, ...] | None],
        current: tuple[Subagent, ...] | None,
        /,
    ) -> Sequence[Fragment]:
        """The whole list."""
        return (SubagentsFragment(current or ()),)


class SubagentNotification(Fragment, frozen=True):
    """An agent changed its status, perhaps with an answer."""

    id: ClassVar[str] = "subagent_notification"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers(
        "<subagent_notification>", "</subagent_notification>"
    )
    cap_tokens: ClassVar[int] = 2_000

    agent_path: str
    status: str
    answer: str | None = None

    def body(self) -> str:
        """One line of JSON; an answer stands under its status."""
        status = self.status if self.answer is None else {self.status: self.answer}
        news = json_bytes({"agent_path": self.agent_path, "status": status}).decode()
        return f"\n{news}\n"
