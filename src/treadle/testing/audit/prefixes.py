"""Prefixes: whether every break has its reason, and every request its log.

Owns the rows about requests: the ledger as it was kept, and the one that the log alone
gives. The second is made in memory, so that nothing on disk changes.
"""

from __future__ import annotations

from ...context.rebuild import rebuild_ledger
from ...core.errors import TreadleError
from ...prompt.registry import Registry
from ...store.contract import Index, Store
from ...store.index import MemoryIndex
from .findings import Finding, Report

__all__ = ["audit_prefixes"]


async def audit_prefixes(store: Store, index: Index, registry: Registry, thread: str) -> Report:
    """What is wrong with the requests of a thread."""
    findings = await _kept(index, thread)
    rebuilt = MemoryIndex(store)
    try:
        done = await rebuild_ledger(store, rebuilt, thread, registry)
        findings |= await _kept(rebuilt, thread)
    finally:
        await rebuilt.close()
    differing = (Finding("differing", thread, f"request {seq}") for seq in done.differing)
    return Report.of((*findings, *differing), requests=done.requests)


async def _kept(index: Index, thread: str) -> set[Finding]:
    try:
        rows = await index.rows(thread)
    except TreadleError as error:
        return {Finding("damaged", thread, f"its ledger cannot be read: {error}")}
    return {
        Finding("breaks", thread, f"request at entry {row.seq}, at {row.difference}")
        for row in rows
        if row.unexplained
    }
