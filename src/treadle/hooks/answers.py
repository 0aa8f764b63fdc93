"""Answers: what a hook may say.

Owns the value and the type of a hook. Invariant: everything in an answer is optional, and
what an event has no use for is ignored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from ..core.wire import Json

__all__ = ["Answer", "Hook"]


class Answer(Struct, frozen=True, kw_only=True):
    """What a hook may say; everything is optional."""

    block: str | None = None
    """Do not go on, for this reason. Before a call, a compaction or a prompt."""
    parameters: dict[str, Json] | UnsetType = UNSET
    """Put these over the call's own. Before a call."""
    output: str | None = None
    """Record this instead. When a result is ready."""
    context: str | None = None
    """Tell the model this with the input. Before a prompt is built, when a thread starts."""


Hook: TypeAlias = Callable[[Any], Awaitable[Answer | None]]
"""Called with the payload of its event."""
