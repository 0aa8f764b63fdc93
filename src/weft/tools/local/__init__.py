"""This machine: processes in their own sessions and files inside the bounds."""

from __future__ import annotations

from .executor import LocalExecutor

__all__ = ["LocalExecutor"]
