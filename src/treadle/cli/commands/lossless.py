"""`treadle lossless`: inspect, check and back up the lossless engine."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...engines.lossless.doctor.check_library import check_library
from ...engines.lossless.doctor.inspect_library import read_library, thread_statuses
from ...engines.lossless.doctor.repair_library import (
    CopiedFile,
    back_up,
    move_aside,
    repair_library,
)
from ...engines.reports import EngineHealth
from ...models.catalog import Catalog
from ...prompt.registry import installed_registry
from ..cli_home import LIBRARY, LOG, Home, find_thread
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..output import Column, iso, say, say_json, table, working

if TYPE_CHECKING:
    from ...engines.lossless.doctor.check_library import CheckResult
    from ...engines.lossless.doctor.inspect_library import ThreadStatus
    from ...engines.lossless.doctor.library_rules import DoctorFinding
    from ...engines.lossless.doctor.repair_library import CopiedFile
    from ...engines.reports import EngineFailure
    from ...store.contract import Store

__all__ = ["command"]

_FILES = (LIBRARY, LOG, "index.db")
_COLUMNS = (
    Column("THREAD"),
    Column("TURNS", right=True),
    Column("SUMMARIES", right=True),
    Column("DEGRADED", right=True),
    Column("OWED", right=True),
    Column("VIEW", right=True),
    Column("BUDGET", right=True),
    Column("TITLE", gives=True),
)
_MOST_FINDINGS = 10
"""How many findings of one kind are printed."""


@click.group(
    "lossless",
    invoke_without_command=True,
    epilog=examples(
        "treadle lossless status",
        "treadle lossless doctor --fix",
        "treadle lossless backup ~/treadle-backup",
    ),
)
@as_json
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Inspect, check and back up the lossless engine: its summaries, jobs and files.

    The engine's data can be built again from the log. These commands never change the log.
    Without a command, it runs `treadle lossless status`.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(status, name=None, as_json=as_json)


@command.command(
    "status",
    epilog=examples("treadle lossless status", "treadle lossless status --thread last --json"),
)
@click.option("--thread", "name", help="Only this thread: an id, a title, or `last`.")
@as_json
@runs
async def status(home: Home, name: str | None, as_json: bool) -> None:
    """Show the state of the engine for each thread.

    TURNS shows the turns that the engine has, and the turns in the log. DEGRADED summaries
    are extracts that no model has written yet. OWED counts the jobs that are still to do.
    VIEW and BUDGET are tokens.
    """
    threads = await _thread_statuses(home, name)
    failure = await asyncio.to_thread(_failure, home)
    files = _files(home)
    if as_json:
        say_json({"threads": threads, "last_failure": failure, "files": files})
        return
    if threads:
        table(_COLUMNS, [_row(one) for one in threads])
    else:
        say("the lossless engine has served no thread here")
    remarks = [remark for one in threads for remark in _remarks(one)]
    remarks += _failure_remarks(failure)
    if remarks:
        say("\nwhat to know:")
    for remark in remarks:
        say(f"  {remark}")
    if files:
        say("\n" + "\n".join(f"{one.path}  {one.size:,} bytes" for one in files))


@command.command(
    "doctor", epilog=examples("treadle lossless doctor", "treadle lossless doctor --fix --json")
)
@click.option("--fix", is_flag=True, help="Repair what can be repaired, after a backup.")
@as_json
@runs
async def doctor(home: Home, fix: bool, as_json: bool) -> int:
    """Check that the summaries, the jobs and the logs agree. It reads all of them.

    The exit code is 1 when a problem remains at the end. --fix copies the files first. It
    changes only data that can be built again from the log, or that belongs to no thread.
    """
    done: list[str] = []
    where = _backup_path(home, "before-repair")
    with working("checking") as tell:
        async with home.store() as store:
            found = await _check(home, store, tell)
            if fix and _is_damaged(found):
                done.append(await _set_aside(home))
                found = await _check(home, store, tell)
            if fix and _is_fixable(found):
                await _back_up(home, where)
                mended, found = await _repair(home, store, found, tell)
                done += mended
    backup = str(where) if where.exists() else None
    left = any(finding.serious for finding in found.findings)
    if as_json:
        said = {"ok": not left, "findings": found.findings, "done": done, "backup": backup}
        say_json(said)
    else:
        _print(found.findings, done, backup)
    return 1 if left else 0


@command.command(
    "backup", epilog=examples("treadle lossless backup", "treadle lossless backup ~/treadle-backup")
)
@click.argument(
    "destination",
    metavar="[DEST]",
    required=False,
    type=click.Path(path_type=Path),
)
@as_json
@runs
async def backup(home: Home, destination: Path | None, as_json: bool) -> None:
    """Copy the log and its summaries, even while other processes write them.

    DEST is a directory that does not exist yet. By default it is created in `backups` in the
    home. You can use the copy as a home: `treadle --home DEST threads`.
    """
    if home.address is not None:
        raise click.ClickException(
            "the log is in a database, so back it up there (`pg_dump --schema treadle`), "
            "and copy the home; `--store sqlite` means the log in the home"
        )
    where = (destination or _backup_path(home, "backup")).expanduser().absolute()
    if not (home.path / LOG).exists():
        raise click.ClickException("there is nothing to copy: this home has no threads")
    copied = await _back_up(home, where)
    if as_json:
        say_json({"backup": str(where), "files": copied})
        return
    for one in copied:
        say(f"{one.path}  {one.size:,} bytes")
    say(f"copied to {where}")


async def _thread_statuses(home: Home, name: str | None) -> list[ThreadStatus]:
    contents = await asyncio.to_thread(read_library, home.path / LIBRARY)
    catalog = await asyncio.to_thread(Catalog.load, home.path / "models.toml")
    registry = await asyncio.to_thread(installed_registry)
    async with home.store() as store:
        thread = None if name is None else (await find_thread(store, name)).id
        return await thread_statuses(store, contents, catalog, registry, thread=thread)


def _failure(home: Home) -> EngineFailure | None:
    return EngineHealth(home.path).read().get("lossless")


def _files(home: Home) -> list[CopiedFile]:
    there = [name for name in _FILES if (home.path / name).exists()]
    return [CopiedFile(name, (home.path / name).stat().st_size) for name in there]


def _row(one: ThreadStatus) -> list[str]:
    return [
        one.thread,
        f"{one.turns_known}/{one.turns_in_log}",
        str(one.summaries),
        str(one.degraded),
        str(len(one.jobs)),
        f"{one.view_tokens:,}",
        "-" if one.budget is None else f"{one.budget:,}",
        one.title,
    ]


def _remarks(one: ThreadStatus) -> Iterator[str]:
    if one.turns_waiting:
        yield f"{one.thread}: {one.turns_waiting} turns are still to be sent; its next turn does it"
    if one.jobs:
        oldest = _ago(one.jobs[0].created)
        attempts = max(job.attempts for job in one.jobs)
        errors = [job.error for job in one.jobs if job.error]
        last = f", last: {errors[-1]}" if errors else ""
        tried = f", tried up to {attempts} times{last}" if attempts else ""
        yield f"{one.thread}: {len(one.jobs)} summaries are owed, the oldest since {oldest}{tried}"
    if one.budget is not None and one.view_tokens > one.budget:
        yield f"{one.thread}: the view is larger than its budget; the next turn compacts it"


def _failure_remarks(failure: EngineFailure | None) -> Iterator[str]:
    if failure is not None:
        often = f", {failure.count} times in a row" if failure.count > 1 else ""
        yield f"failed last at {failure.operation} ({iso(failure.time)}{often}): {failure.reason}"


def _ago(milliseconds: int) -> str:
    """Return how long ago it was, in the largest unit."""
    seconds = max(0, int(time.time() - milliseconds / 1000))
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} seconds"


async def _check(home: Home, store: Store, tell: Callable[[str], None]) -> CheckResult:
    return await check_library(store, home.path / LOG, home.path / LIBRARY, progress=tell)


async def _repair(
    home: Home, store: Store, found: CheckResult, tell: Callable[[str], None]
) -> tuple[list[str], CheckResult]:
    """Repair until nothing more can be; return what was done, and what is left."""
    done: list[str] = []
    while _is_fixable(found) and len(done) < _MOST_FINDINGS:
        done += await repair_library(store, home.path / LIBRARY, found)
        found = await _check(home, store, tell)
    return done, found


def _is_damaged(found: CheckResult) -> bool:
    """Return whether the library file itself cannot be read."""
    return any(
        (finding.kind, finding.subject) == ("damaged_file", Path(LIBRARY).name)
        for finding in found.findings
    )


async def _set_aside(home: Home) -> str:
    moved = await asyncio.to_thread(move_aside, home.path / LIBRARY)
    return f"the damaged library was moved to {moved}; a new one is built from the log"


def _is_fixable(found: CheckResult) -> bool:
    return any(finding.fixable for finding in found.findings)


async def _back_up(home: Home, where: Path) -> list[CopiedFile]:
    return await asyncio.to_thread(back_up, home.path, where, (LIBRARY, LOG))


def _backup_path(home: Home, what: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return home.path / "backups" / f"{what}-{stamp}"


def _print(findings: Sequence[DoctorFinding], done: Sequence[str], backup: str | None) -> None:
    for line in done:
        say(line)
    if backup is not None:
        say(f"backup from before the repair: {backup}")
    kinds: dict[str, list[DoctorFinding]] = defaultdict(list)
    for finding in findings:
        kinds[finding.kind].append(finding)
    for kind, several in kinds.items():
        for finding in several[:_MOST_FINDINGS]:
            where = f"{finding.thread}: " if finding.thread else ""
            say(f"{where}{finding.what}; {finding.remedy}")
        if len(several) > _MOST_FINDINGS:
            say(f"… and {len(several) - _MOST_FINDINGS} more of this kind ({kind})")
    if not findings:
        say("summaries, jobs and logs agree")
