"""Testing: tools for hosts and third parties to test their own parts.

Offers `layout` (a request as one line per item), the `prefix_guard` plugin (no test may
break a prompt prefix without a marker), models that answer from a script (`ScriptedModel`,
`FakeServer`), an app-server with a script (`appserver`), the `contracts` of engines, stores
and other parts, and an auditor of what a run left behind (`audit`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .layouts import layout

if TYPE_CHECKING:
    from . import contracts, prefix_guard
    from .fake import FakeServer
    from .scripted import ScriptedModel

__all__ = ["FakeServer", "ScriptedModel", "contracts", "layout", "prefix_guard"]

_MODULES = {"FakeServer": "fake", "ScriptedModel": "scripted"}


def __getattr__(name: str) -> Any:
    # Two need pytest, which wants to be the first to import its plugins; two need HTTP.
    if name in ("contracts", "prefix_guard"):
        return import_module(f"{__name__}.{name}")
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
