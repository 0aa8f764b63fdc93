"""Weft: a runtime for coding agents in which what the model sees is engineered.

Start with `Thread`. Importing the package does no I/O and loads nothing heavy;
each name below is loaded from its own module at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .context.head import Choices
    from .context.layout import layout
    from .context.request import Request
    from .context.view import View
    from .entries import Entry, Flags, Head, Origin, Reason, Recipe
    from .errors import WeftError
    from .harness.events import Event, TurnCompleted
    from .hooks import Hooks
    from .models.catalog import Catalog
    from .prompt.fragment import Fragment, Markers
    from .prompt.observation import PromptContext
    from .prompt.registry import Registry, default_registry
    from .prompt.state import StateFragment
    from .provenance import InputProvenance, InternalEvent
    from .store.contract import Store
    from .store.index import SqliteIndex
    from .store.memory import MemoryStore
    from .store.sqlite import SqliteStore
    from .thread import Thread
    from .tools.decorator import tool

__version__ = "0.1.0"

__all__ = [
    "Catalog",
    "Choices",
    "Entry",
    "Event",
    "Flags",
    "Fragment",
    "Head",
    "Hooks",
    "InputProvenance",
    "InternalEvent",
    "Markers",
    "MemoryStore",
    "Origin",
    "PromptContext",
    "Reason",
    "Recipe",
    "Registry",
    "Request",
    "SqliteIndex",
    "SqliteStore",
    "StateFragment",
    "Store",
    "Thread",
    "TurnCompleted",
    "View",
    "WeftError",
    "default_registry",
    "layout",
    "tool",
]

_HOMES = {
    "Catalog": "models.catalog",
    "Choices": "context.head",
    "Entry": "entries",
    "Event": "harness.events",
    "Flags": "entries",
    "Fragment": "prompt.fragment",
    "Head": "entries",
    "Hooks": "hooks",
    "InputProvenance": "provenance",
    "InternalEvent": "provenance",
    "Markers": "prompt.fragment",
    "MemoryStore": "store.memory",
    "Origin": "entries",
    "PromptContext": "prompt.observation",
    "Reason": "entries",
    "Recipe": "entries",
    "Registry": "prompt.registry",
    "Request": "context.request",
    "SqliteIndex": "store.index",
    "SqliteStore": "store.sqlite",
    "StateFragment": "prompt.state",
    "Store": "store.contract",
    "Thread": "thread",
    "TurnCompleted": "harness.events",
    "View": "context.view",
    "WeftError": "errors",
    "default_registry": "prompt.registry",
    "layout": "context.layout",
    "tool": "tools.decorator",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
