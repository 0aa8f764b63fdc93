"""The executor of this machine: processes in their own sessions, files inside the bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .local_executor import LocalExecutor

__all__ = [
    "LocalExecutor",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "local_executor": "LocalExecutor",
    },
)
