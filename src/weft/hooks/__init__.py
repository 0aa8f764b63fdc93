"""Hooks: what a host does around turns, calls, prompts and compactions."""

from __future__ import annotations

from .answers import Answer
from .command import CommandHook
from .registry import Hooks

__all__ = ["Answer", "CommandHook", "Hooks"]
