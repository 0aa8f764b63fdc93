"""The tools with which an agent opens its past again.

Owns which tools there are. Invariant: an engine offers the same tools for its whole life;
what they return of the past is text like that of any other tool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....tools.contract import Tool
from ....tools.decorator import tool
from .ask_tool import AskTool
from .expand_tools import ExpandTools
from .note_tools import NoteTools
from .resolver import Resolver
from .search_tool import SearchTool

__all__ = ["recall_tools"]


def recall_tools(resolver: Resolver) -> tuple[Tool, ...]:
    """Return the tools that use `resolver`."""
    expand, notes = ExpandTools(resolver), NoteTools(resolver)
    return (
        _make_tool(SearchTool(resolver).recall_search, parallel=True),
        _make_tool(expand.recall_describe, parallel=True),
        _make_tool(expand.recall_expand, parallel=True),
        _make_tool(AskTool(resolver).recall_ask, parallel=True),
        _make_tool(notes.note_write),
        _make_tool(notes.note_list, parallel=True),
        _make_tool(notes.new_context),
    )


def _make_tool(function: Callable[..., Any], *, parallel: bool = False) -> Tool:
    description = " ".join((function.__doc__ or "").split())
    # Tools that may run in parallel only read.
    return tool(description=description, parallel=parallel, replay_safe=parallel)(function)
