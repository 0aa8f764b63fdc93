"""The harness seam: what runs the steps of an admitted turn.

Owns the `Harness` Protocol and what it is given. Invariant: a harness executes; what is
allowed, offered or delivered was decided before it was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct

from ..context.journal import Journal
from ..engines.info import Capability
from ..engines.lifecycle import Lifecycle
from ..hooks.registry import Hooks
from ..models.contract import Model
from ..models.retry import Backoff
from ..store.contract import Turn
from ..tools.contract import Tool, ToolCall, ToolContext
from ..usage import TokenUsage
from .events import Event, TurnStatus

__all__ = ["CALL", "STREAM_PATIENCE", "Harness", "Outcome", "TurnRun"]


CALL: ContextVar[ToolCall] = ContextVar("call")
"""The call that the present task runs."""

STREAM_PATIENCE = Backoff(retries=5)
"""How an answer that broke off is asked for again, unless a harness knows better."""


class Outcome(Struct, frozen=True, kw_only=True):
    """How a turn ended."""

    status: TurnStatus
    text: str = ""
    """The model's last message."""
    usage: TokenUsage = TokenUsage()
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class TurnRun:
    """One admitted turn, and all that running it needs."""

    turn: Turn | None = None
    """None while no turn is under way, as for a compaction by hand."""
    journal: Journal
    engine: Lifecycle
    """Who decides what the model sees of the conversation."""
    model: Model
    tools: Sequence[Tool]
    context: Callable[[int], ToolContext]
    """What the calls of a step get to work with."""
    emit: Callable[[Event], None]
    hooks: Hooks = field(default_factory=Hooks)
    patience: Backoff = STREAM_PATIENCE


class Harness(Protocol):
    """Runs the steps of a turn until the model has nothing more to do.

    Every item is in the log before anything acts on it. When the task is cancelled, every
    open call gets its result before the cancellation goes on.
    """

    name: str

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can do for context engines."""
        ...

    async def run(self, run: TurnRun) -> Outcome:
        """Run the turn. Ends it in the log, in the transaction of its last items."""
        ...
