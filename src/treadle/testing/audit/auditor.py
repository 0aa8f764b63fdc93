"""The audit itself: every home, every thread, every file, every process."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ...context.rebuild import rebuild_ledger
from ...core.errors import StoreError, TreadleError
from ...prompt.registry import Registry, installed_registry
from ...store.contract import Index, Store
from ...store.index import MemoryIndex, SqliteIndex
from ...store.sqlite import SqliteStore
from .engine_advances import audit_engine
from .evidence import Evidence
from .findings import Finding, Report
from .logs import ThreadAcks, audit_log
from .remains import audit_files, audit_processes

__all__ = ["audit"]


async def audit(evidence: Evidence) -> Report:
    """Audit every home, thread, file and process. Nobody may write meanwhile."""
    acks = ThreadAcks.by_thread(evidence)
    known: set[str] = set()
    reports = []
    for home in evidence.homes:
        report, threads = await _home(home, acks, evidence)
        reports.append(report)
        known |= threads
    lost = (
        Finding("lost", thread, "the whole thread was told of and is in no log")
        for thread, seen in acks.items()
        if thread not in known and (seen.logged or seen.begun)
    )
    reports += [Report.of(lost), await asyncio.to_thread(audit_files, evidence)]
    reports.append(await asyncio.to_thread(audit_processes, evidence.mark))
    return Report().merge(*reports)


async def _home(
    home: Path, acks: dict[str, ThreadAcks], evidence: Evidence
) -> tuple[Report, set[str]]:
    try:
        async with await SqliteStore.open(home) as store:
            return await _threads(home, store, acks, evidence)
    except StoreError as error:
        return Report.of([Finding("damaged", str(home), str(error))]), set()


async def _threads(
    home: Path, store: SqliteStore, acks: dict[str, ThreadAcks], evidence: Evidence
) -> tuple[Report, set[str]]:
    registry = await asyncio.to_thread(installed_registry)
    index = SqliteIndex(store, home)
    report = Report()
    try:
        threads = await store.threads()
        for info in threads:
            log = await audit_log(store, info, acks.get(info.id, ThreadAcks()), evidence)
            prefixes = await _audit_prefixes(store, index, registry, info.id)
            report = report.merge(log, prefixes)
    finally:
        await index.close()
    names = [info.id for info in threads]
    engine = await audit_engine(home, store, names, evidence)
    return report.merge(engine), set(names)


async def _audit_prefixes(store: Store, index: Index, registry: Registry, thread: str) -> Report:
    """Return the defects in the requests of a thread."""
    findings = await _unexplained_breaks(index, thread)
    rebuilt = MemoryIndex(store)
    try:
        done = await rebuild_ledger(store, rebuilt, thread, registry)
        findings |= await _unexplained_breaks(rebuilt, thread)
    finally:
        await rebuilt.close()
    differing = (Finding("differing", thread, f"request {seq}") for seq in done.differing)
    return Report.of((*findings, *differing), requests=done.requests)


async def _unexplained_breaks(index: Index, thread: str) -> set[Finding]:
    try:
        rows = await index.rows(thread)
    except TreadleError as error:
        return {Finding("damaged", thread, f"its ledger cannot be read: {error}")}
    return {
        Finding("breaks", thread, f"request at entry {row.seq}, at {row.difference}")
        for row in rows
        if row.unexplained
    }
