"""The audit itself: every home, every thread, every file, every process."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ...core.errors import StoreError
from ...prompt.registry import installed_registry
from ...store.index import SqliteIndex
from ...store.sqlite import SqliteStore
from .engines import audit_engine
from .evidence import Evidence
from .findings import Finding, Report
from .logs import Heard, audit_log
from .prefixes import audit_prefixes
from .remains import audit_files, audit_processes

__all__ = ["audit"]


async def audit(evidence: Evidence) -> Report:
    """Look at all there is. Nobody should be writing."""
    heard = Heard.by_thread(evidence)
    known: set[str] = set()
    reports = []
    for home in evidence.homes:
        report, threads = await _home(home, heard, evidence)
        reports.append(report)
        known |= threads
    lost = (
        Finding("lost", thread, "the whole thread was told of and is in no log")
        for thread, told in heard.items()
        if thread not in known and (told.logged or told.begun)
    )
    reports += [Report.of(lost), await asyncio.to_thread(audit_files, evidence)]
    reports.append(await asyncio.to_thread(audit_processes, evidence.mark))
    return Report().with_(*reports)


async def _home(home: Path, heard: dict[str, Heard], evidence: Evidence) -> tuple[Report, set[str]]:
    try:
        async with await SqliteStore.open(home) as store:
            return await _threads(home, store, heard, evidence)
    except StoreError as error:
        return Report.of([Finding("damaged", str(home), str(error))]), set()


async def _threads(
    home: Path, store: SqliteStore, heard: dict[str, Heard], evidence: Evidence
) -> tuple[Report, set[str]]:
    registry = await asyncio.to_thread(installed_registry)
    index = SqliteIndex(store, home)
    report = Report()
    try:
        threads = await store.threads()
        for info in threads:
            log = await audit_log(store, info, heard.get(info.id, Heard()), evidence)
            prefixes = await audit_prefixes(store, index, registry, info.id)
            report = report.with_(log, prefixes)
    finally:
        await index.close()
    names = [info.id for info in threads]
    engine = await audit_engine(home, store, names, evidence)
    return report.with_(engine), set(names)
