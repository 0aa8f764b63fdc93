"""The sandbox: what commands may touch, and who is asked before they do.

`policy` → `boundary` says what may be touched; `bubblewrap` enforces it on commands;
`verdict` decides which commands run, are shown to the user, or are refused, and `approvals`
holds what the user answered. The names here load their modules at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .boundary import Boundary, resolve_boundary
    from .environment_variables import command_environment
    from .launch import Launch, NoSandbox, Sandbox
    from .policy import SandboxPolicy
    from .probe import find_bubblewrap

__all__ = [
    "Boundary",
    "Launch",
    "NoSandbox",
    "Sandbox",
    "SandboxPolicy",
    "command_environment",
    "find_bubblewrap",
    "resolve_boundary",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "boundary": "Boundary resolve_boundary",
        "environment_variables": "command_environment",
        "launch": "Launch NoSandbox Sandbox",
        "policy": "SandboxPolicy",
        "probe": "find_bubblewrap",
    },
)
