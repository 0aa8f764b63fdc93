"""Executable contracts: subclass one, provide its fixtures, and run pytest."""

from __future__ import annotations

from ..matrix.plugin import MatrixContract
from .channels import ChannelContract
from .context_engine import ContextEngineContract
from .harness_engines import HarnessContract
from .model_streams import ModelContract
from .store import StoreContract
from .store_index import IndexContract
from .store_work import WorkContract
from .tool_executor import ExecutorContract

__all__ = [
    "ChannelContract",
    "ContextEngineContract",
    "ExecutorContract",
    "HarnessContract",
    "IndexContract",
    "MatrixContract",
    "ModelContract",
    "StoreContract",
    "WorkContract",
]
