"""Layouts in tests: what a thread would send, one line per item.

Invariant: a line is read from the bytes of the request, so that a test that compares a
layout compares what the model gets.
"""

from __future__ import annotations

from ..context.layout import layout as request_layout
from ..context.request import Request
from ..prompt.registry import Registry, default_registry
from ..thread.thread import Thread

__all__ = ["layout"]


def layout(shown: Thread | Request, registry: Registry | None = None) -> str:
    """Return what a thread would send now, or a request, as text.

    `registry` names the fragments of a request; a thread brings its own.
    """
    if isinstance(shown, Thread):
        return request_layout(shown.request(), shown.registry)
    return request_layout(shown, registry or default_registry())
