"""`treadle import`: import the sessions of other agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import click

from ...store.contract import Store
from ...transfer.import_report import ImportedThread, ImportReport
from ...transfer.importing import FORMATS, import_paths
from ..cli_home import Home
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..output import THREAD_TAIL, Column, one_line, say, say_json, table, working

__all__ = ["command"]

_COLUMNS = (
    Column("THREAD", tail=THREAD_TAIL),
    Column("STATE"),
    Column("ADDED", right=True),
    Column("THERE", right=True),
    Column("TITLE", gives=True),
    Column("FILE", gives=True),
)
_MOST_ROWS = 20
_AUTO = "auto"


@click.command(
    "import",
    epilog=examples(
        "treadle import ~/.codex/sessions",
        "treadle import ~/.claude/projects --dry-run",
        "treadle import chat.jsonl --format jsonl --json",
    ),
)
@click.argument(
    "paths",
    metavar="FILE|DIR...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
)
@click.option(
    "--format",
    "name",
    type=click.Choice((_AUTO, "codex", "claude", "openclaw", "jsonl")),
    default=_AUTO,
    show_default=True,
    help="The format of the files; `auto` detects it for each.",
)
@click.option(
    "--dry-run", "dry", is_flag=True, help="Print what would be imported, and write nothing."
)
@as_json
@runs
async def command(home: Home, paths: tuple[Path, ...], name: str, dry: bool, as_json: bool) -> None:
    """Import sessions of Codex, Claude Code and OpenClaw, or plain JSONL.

    Importing again adds only what is new. Each line of plain JSONL is one message:
    {"thread", "id"?, "role", "content", "time"?}. In a directory, every .jsonl file is read.
    """
    wanted = next((each for each in FORMATS if each == name), None)
    async with _open_store(home, dry=dry) as store:
        with working("importing") as tell:
            report = await import_paths(store, paths, format=wanted, dry=dry, progress=tell)
    if as_json:
        say_json(report)
    else:
        _tell(report, paths, dry=dry)


@asynccontextmanager
async def _open_store(home: Home, *, dry: bool) -> AsyncIterator[Store]:
    """Open the store to write to; a dry run does not create one."""
    if dry:
        async with home.store() as store:
            yield store
        return
    async with home.writable_store() as store:
        yield store


def _tell(report: ImportReport, paths: Sequence[Path], *, dry: bool) -> None:
    if not report.threads and not report.skipped and not report.problems:
        named = ", ".join(repr(str(path)) for path in paths)
        raise click.ClickException(
            f"there is no .jsonl file in {named}; name one, or its directory"
        )
    done = "would import" if dry else "imported"
    say(
        f"{done} {report.added:,} record{'' if report.added == 1 else 's'} "
        f"into {_thread_count(report)}; "
        f"{report.present:,} were there already"
    )
    changed = [each for each in report.threads if each.state != "unchanged"]
    if changed:
        table(_COLUMNS, [_row(each) for each in changed[:_MOST_ROWS]])
    if len(changed) > _MOST_ROWS:
        say(f"and {len(changed) - _MOST_ROWS:,} more; --json lists them all")
    for sentence in _remarks(report):
        say(sentence)
    for problem in report.problems:
        click.echo(f"treadle: {one_line(problem)}", err=True)


def _thread_count(report: ImportReport) -> str:
    changed = sum(each.state != "unchanged" for each in report.threads)
    return f"{changed:,} thread{'' if changed == 1 else 's'}"


def _row(each: ImportedThread) -> list[str]:
    return [each.thread or "-", each.state, f"{each.added:,}", f"{each.present:,}", *_names(each)]


def _names(each: ImportedThread) -> tuple[str, str]:
    """Return what tells a conversation apart: its name, and the end of its file's path."""
    return each.name, "/".join(Path(each.file).parts[-2:])


def _remarks(report: ImportReport) -> list[str]:
    """Return remarks about states and about records that are in no thread."""
    told = {each.state for each in report.threads}
    return [
        *(["forked: the thread had continued in another way; the fork continues the file"]
          if "forked" in told else []),
        *(["apart: the file's beginning has changed; the earlier thread stays as it is"]
          if "apart" in told else []),
        *([f"kept as they are, hidden from models: {_counts_text(report.kept)}"]
          if report.kept else []),
        *([f"left out, nothing new in them: {_counts_text(report.left_out)}"]
          if report.left_out else []),
        *([f"left out, on abandoned branches: {report.abandoned:,}"] if report.abandoned else []),
        *([f"skipped {len(report.skipped):,} files of unknown format"] if report.skipped else []),
    ]  # fmt: skip


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{one_line(name, 60)} {count:,}" for name, count in counts.items())
