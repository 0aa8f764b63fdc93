"""Testing: what hosts and third parties prove their own parts with.

Offers `layout` (a request as one line per item), the `guard` plugin (no test may
break a prompt prefix without saying so), models that answer from a script
(`ScriptedModel`, `FakeServer`), an app-server that follows one (`appserver`), the
`contracts` of the seams and an auditor of what a run left behind (`audit`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .layouts import layout

if TYPE_CHECKING:
    from . import contracts, guard
    from .fake import FakeServer
    from .scripted import ScriptedModel

__all__ = ["FakeServer", "ScriptedModel", "contracts", "guard", "layout"]

_HOMES = {"FakeServer": "fake", "ScriptedModel": "scripted"}


def __getattr__(name: str) -> Any:
    # Two need pytest, which wants to be the first to import its plugins; two need HTTP.
    if name in ("contracts", "guard"):
        return import_module(f"{__name__}.{name}")
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
