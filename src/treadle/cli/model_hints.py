"""Hints at models: what was probably meant where a provider does not know a model.

Invariant: a hint is only given when the provider itself said so; new models work without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..harness.events import TurnCompleted

if TYPE_CHECKING:
    from ..thread.thread import Thread

__all__ = ["unknown_model_hint"]


def unknown_model_hint(thread: Thread, end: TurnCompleted) -> str:
    """Return which model was probably meant by one that its provider does not know."""
    if end.status != "failed" or not end.tried or end.tried[-1].reason != "model_not_found":
        return ""
    named = end.tried[-1].model
    meant = thread.policy.routes.catalog.near_name(named)
    near = f"did you mean {meant!r}? " if meant else ""
    provider = thread.policy.routes.catalog.profile(named).provider
    return f"{near}`treadle models --provider {provider}` lists the models that Treadle knows"
