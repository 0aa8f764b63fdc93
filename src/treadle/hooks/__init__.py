"""Hooks: what a host does around turns, calls, prompts and compactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .answers import Answer
    from .command import CommandHook
    from .registry import Hooks

__all__ = [
    "Answer",
    "CommandHook",
    "Hooks",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "answers": "Answer",
        "command": "CommandHook",
        "registry": "Hooks",
    },
)
