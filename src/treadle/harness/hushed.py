"""Hushing: events without secrets, whoever raised them.

Owns which words of an event are somebody else's: an error's, a provider's, an engine's.
Invariant: what the model said and what tools answered is passed on as it was kept.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..core.redact import redact
from .events import CompactionFinished, Event, NoticeRaised, Retrying, TurnCompleted

__all__ = ["hushed"]


_QUOTING = (NoticeRaised, Retrying, CompactionFinished, TurnCompleted)
"""Events with words of others in them; nearly all that are heard are deltas."""


def hushed(event: Event) -> Event:
    """`event`, as hosts may hear it."""
    if not isinstance(event, _QUOTING):
        return event
    match event:
        case NoticeRaised():
            return replace(event, text=redact(event.text))
        case Retrying():
            return replace(event, reason=redact(event.reason))
        case CompactionFinished() | TurnCompleted() if event.error:
            return replace(event, error=redact(event.error))
    return event
