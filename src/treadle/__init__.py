"""Treadle: a runtime for coding agents in which what the model sees is engineered.

Start with `Thread`. Importing the package does no I/O and loads nothing heavy;
each name below is loaded from its own module at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.lazy import deferred

if TYPE_CHECKING:
    from .context.head import Choices
    from .context.layout import layout
    from .context.request import Request
    from .context.view import View
    from .core.entries import Entry, Flags, Head, Origin, Reason, Recipe
    from .core.errors import TreadleError
    from .core.provenance import InputProvenance, InternalEvent
    from .harness.events import Event, TurnCompleted
    from .hooks.registry import Hooks
    from .models.catalog import Catalog
    from .prompt.fragment import Fragment, Markers
    from .prompt.observation import PromptContext
    from .prompt.registry import Registry, default_registry
    from .prompt.state import StateFragment
    from .store.contract import Store
    from .store.index import SqliteIndex
    from .store.memory import MemoryStore
    from .store.sqlite import SqliteStore
    from .thread.options import (
        EngineOptions,
        HarnessOptions,
        PromptOptions,
        Rights,
        Routing,
        ThreadOptions,
        ToolOptions,
    )
    from .thread.thread import Thread
    from .tools.decorator import tool

__version__ = "0.1.0"

__all__ = [
    "Catalog",
    "Choices",
    "EngineOptions",
    "Entry",
    "Event",
    "Flags",
    "Fragment",
    "HarnessOptions",
    "Head",
    "Hooks",
    "InputProvenance",
    "InternalEvent",
    "Markers",
    "MemoryStore",
    "Origin",
    "PromptContext",
    "PromptOptions",
    "Reason",
    "Recipe",
    "Registry",
    "Request",
    "Rights",
    "Routing",
    "SqliteIndex",
    "SqliteStore",
    "StateFragment",
    "Store",
    "Thread",
    "ThreadOptions",
    "ToolOptions",
    "TreadleError",
    "TurnCompleted",
    "View",
    "default_registry",
    "layout",
    "tool",
]

__getattr__ = deferred(
    __name__,
    {
        "context.head": "Choices",
        "context.layout": "layout",
        "context.request": "Request",
        "context.view": "View",
        "core.entries": "Entry Flags Head Origin Reason Recipe",
        "core.errors": "TreadleError",
        "harness.events": "Event TurnCompleted",
        "hooks.registry": "Hooks",
        "models.catalog": "Catalog",
        "prompt.fragment": "Fragment Markers",
        "prompt.observation": "PromptContext",
        "prompt.registry": "Registry default_registry",
        "prompt.state": "StateFragment",
        "core.provenance": "InputProvenance InternalEvent",
        "store.contract": "Store",
        "store.index": "SqliteIndex",
        "store.memory": "MemoryStore",
        "store.sqlite": "SqliteStore",
        "thread.options": "EngineOptions HarnessOptions PromptOptions Rights Routing ThreadOptions"
        " ToolOptions",
        "thread.thread": "Thread",
        "tools.decorator": "tool",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
