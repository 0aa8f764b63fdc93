"""Recall: the tools with which an agent opens its past again.

Owns which tools there are. Invariant: the same tuple for the life of an engine; what they
tell of the past is text like any other tool's, and nothing in it was asked for now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....tools.contract import Tool
from ....tools.decorator import tool
from .asking import Asking
from .desk import Desk
from .looking import Looking
from .noting import Noting
from .opening import Opening

__all__ = ["Desk", "recall_tools"]


def recall_tools(desk: Desk) -> tuple[Tool, ...]:
    """The tools that work at `desk`."""
    reading = (
        Looking(desk).recall_search,
        Opening(desk).recall_describe,
        Opening(desk).recall_expand,
        Asking(desk).recall_ask,
    )
    noting = Noting(desk)
    return (
        *(_offered(each, parallel=True) for each in reading),
        _offered(noting.note_write),
        _offered(noting.note_list, parallel=True),
        _offered(noting.new_context),
    )


def _offered(function: Callable[..., Any], *, parallel: bool = False) -> Tool:
    said = " ".join((function.__doc__ or "").split())
    # Those that may run beside others only look.
    return tool(description=said, parallel=parallel, replay_safe=parallel)(function)
