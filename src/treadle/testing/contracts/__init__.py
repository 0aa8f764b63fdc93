"""Executable contracts: subclass one, provide its fixtures, and run pytest."""

from __future__ import annotations

from .channels import ChannelContract
from .engines import ContextEngineContract
from .executor import ExecutorContract
from .harness import HarnessContract
from .index import IndexContract
from .matrix import MatrixContract
from .models import ModelContract
from .store import StoreContract

__all__ = [
    "ChannelContract",
    "ContextEngineContract",
    "ExecutorContract",
    "HarnessContract",
    "IndexContract",
    "MatrixContract",
    "ModelContract",
    "StoreContract",
]
