"""All golden conversations by their names: every public coroutine of these modules."""

from __future__ import annotations

import inspect
from types import ModuleType

from . import bases, basics, corners, crews, memories, on_codex, pasts
from .playing import Conversation

__all__ = ["CONVERSATIONS"]


def _told(module: ModuleType) -> dict[str, Conversation]:
    """The conversations of a module, in the order of their names."""
    return {
        name.replace("_", "-"): value
        for name, value in sorted(vars(module).items())
        if inspect.iscoroutinefunction(value)
        and value.__module__ == module.__name__
        and list(inspect.signature(value).parameters) == ["stage"]
    }


CONVERSATIONS: dict[str, Conversation] = {
    name: each
    for module in (basics, bases, corners, crews, memories, on_codex, pasts)
    for name, each in _told(module).items()
}
