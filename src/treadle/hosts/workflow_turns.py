"""What turns have in common that an engine for workflows runs.

Owns how such a turn is followed. Invariant: the id of a workflow is the id of its turn, so a
workflow that is run again goes on with the turn, or only hears how it ended.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, TypeAlias

from ..core.errors import TreadleError, TurnLeft
from ..harness.events import TurnCompleted
from .unattended import answer_unattended

if TYPE_CHECKING:
    from ..thread.thread import Thread

__all__ = ["OpenById", "WorkflowError", "follow_turn"]

OpenById: TypeAlias = Callable[[str], AbstractAsyncContextManager["Thread"]]
"""Opens a thread for writing, by its id."""


class WorkflowError(TreadleError):
    """What a workflow raised, as its text."""


async def follow_turn(thread: Thread, turn: str, text: str) -> TurnCompleted:
    """Run a turn to its end. Raises `TurnLeft` if it was handed back."""
    async with aclosing(thread.run(text, turn_id=turn)) as events:
        async for event in events:
            if isinstance(event, TurnCompleted):
                return event
            answer_unattended(thread, event)
    raise TurnLeft(thread.id)
