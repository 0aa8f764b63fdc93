"""Executable contracts: subclass one, provide its fixtures, and run pytest."""

from __future__ import annotations

from .engines import ContextEngineContract
from .executor import ExecutorContract
from .index import IndexContract
from .models import ModelContract
from .store import StoreContract

__all__ = [
    "ContextEngineContract",
    "ExecutorContract",
    "IndexContract",
    "ModelContract",
    "StoreContract",
]
