"""Hooks: code of a host that runs around turns, calls, prompts and compactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .command_hook import CommandHook
    from .hooks import Hooks
    from .payloads import HookAnswer

__all__ = [
    "CommandHook",
    "HookAnswer",
    "Hooks",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "command_hook": "CommandHook",
        "hooks": "Hooks",
        "payloads": "HookAnswer",
    },
)
