"""The auditor: reads what a run of Treadle left behind and says what is wrong with it.

Owns the comparison of three accounts of one past: what hosts heard (`Witness`), what the
databases hold, and what is left in the world. Invariant: it changes nothing that it
looks at, and each kind of defect has one row, also where its count is 0.
"""

from __future__ import annotations

from .auditor import audit
from .evidence import AckRecorder, EngineUse, Evidence, read_acks
from .findings import ROWS, Finding, Report

__all__ = [
    "ROWS",
    "AckRecorder",
    "EngineUse",
    "Evidence",
    "Finding",
    "Report",
    "audit",
    "read_acks",
]
