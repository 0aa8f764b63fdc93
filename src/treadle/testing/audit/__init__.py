"""The auditor: reads what a run of Treadle left behind and reports the defects.

Owns the comparison of three records: what hosts were told (`AckRecorder`), what the databases
hold, and the files and processes that are left. Invariant: it changes nothing, and each kind
of defect has one row, also where its count is 0.
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
