"""Executable contracts: subclass one, provide its fixtures, and run pytest."""

from __future__ import annotations

from .executor import ExecutorContract
from .index import IndexContract
from .models import ModelContract
from .store import StoreContract

__all__ = ["ExecutorContract", "IndexContract", "ModelContract", "StoreContract"]
