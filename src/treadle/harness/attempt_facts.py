"""Attempt facts: what an attempt did, for the policy to judge.

Owns which calls count as done to the world. Invariant: whoever cannot be shown to have
only looked counts as having acted.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from ..core.items import Item, Message, Reasoning, Refusal, text_of
from ..core.usage import TokenUsage
from ..policy.failures import Failure
from ..policy.limits import LimitReached
from ..policy.outcome import Facts
from ..tools.contract import ToolResult, is_replay_safe
from ..tools.dispatch import ToolsByName
from .contract import Outcome
from .events import TurnStatus
from .stuck_calls import StuckCalls

__all__ = ["UPDATE_PLAN", "AttemptFacts"]

UPDATE_PLAN = "update_plan"
"""The tool with which a model tells its plan."""


class AttemptFacts(Struct):
    """What is known of one attempt so far."""

    tools: ToolsByName = field(default_factory=dict)
    text: str = ""
    """The model's last message."""
    refused: bool = False
    """Whether that is a refusal."""
    reasoned: bool = False
    planned: bool = False
    blocked: bool = False
    """Whether a hook did not want it."""
    effects: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    stuck: StuckCalls = field(default_factory=StuckCalls)
    """What it repeats, and what of it could not be read."""

    def add_item(self, item: Item) -> None:
        """Note that the model made an item."""
        if isinstance(item, Message) and item.role == "assistant":
            self.text = text_of(item.content) or self.text
            self.refused = any(isinstance(part, Refusal) for part in item.content)
        elif isinstance(item, Reasoning):
            self.reasoned = True

    def add_call(self, name: str, namespace: str | None = None) -> None:
        """Note that a call is about to run."""
        if name == UPDATE_PLAN:
            self.planned = True
        elif not self._only_looks(name, namespace):
            self.effects.append(name)

    def add_result(self, result: ToolResult) -> None:
        """Note that a call has its result, and to whom it sent something."""
        self.sent += [str(sent.target) for sent in result.sent]

    def outcome(
        self,
        status: TurnStatus,
        usage: TokenUsage,
        failure: Failure | None = None,
        *,
        ended: bool = True,
        limit: LimitReached | None = None,
    ) -> Outcome:
        """Return how the attempt went, with what is known of it."""
        facts = self.facts(failure)
        return Outcome(
            status=status,
            text=self.text,
            refused=self.refused,
            usage=usage,
            error=failure.message if failure else None,
            facts=msgspec.structs.replace(facts, aborted=status == "interrupted"),
            ended=ended,
            limit=limit,
        )

    def facts(self, failure: Failure | None = None) -> Facts:
        """Return what is known."""
        return Facts(
            text=self.text,
            reasoned=self.reasoned,
            planned=self.planned,
            blocked=self.blocked,
            refused=self.refused,
            effects=tuple(dict.fromkeys(self.effects)),
            sent=tuple(self.sent),
            failure=failure,
        )

    def _only_looks(self, name: str, namespace: str | None) -> bool:
        tool = self.tools.get((namespace, name))
        # A call of a tool that is not there does nothing but fail.
        return tool is None or is_replay_safe(tool)
