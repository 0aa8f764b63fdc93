"""`treadle export`: write a thread to a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import click

from ...core.files import open_replacement
from ...transfer.exporting import EXPORTS, ExportFormat, export_thread
from ..cli_home import Home, find_thread
from ..command_options import as_json, runs, thread_argument
from ..lazy_group import examples
from ..output import say, say_bytes, say_json

__all__ = ["command"]


@click.command(
    "export",
    epilog=examples(
        "treadle export last > thread.jsonl",
        "treadle export last --format markdown --output thread.md",
        "treadle export last --format codex --output rollout.jsonl",
    ),
)
@thread_argument
@click.option(
    "--format",
    "kind",
    type=click.Choice(EXPORTS),
    default="jsonl",
    show_default=True,
    help="Plain JSONL for `treadle import`, a Codex rollout, a Markdown page, or a trajectory "
    "for Harbor.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write to this file  [default: standard output]",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also write context, control entries and entries that were rolled back.",
)
@as_json
@runs
async def command(
    home: Home,
    *,
    name: str,
    kind: ExportFormat,
    output: Path | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Write a thread to standard output or a file: messages, calls and outputs.

    With --output and --json, a report of what was written is printed as JSON.
    """
    if as_json and output is None and kind == "markdown":
        raise click.UsageError("--json and a Markdown page cannot share standard output.")
    size = 0
    async with home.store() as store:
        thread = (await find_thread(store, name)).id
        lines = export_thread(store, thread, kind, everything=everything)
        with _writing(output) as write:
            async with aclosing(lines) as written:
                async for line in written:
                    write(line)
                    size += len(line)
    if as_json and output is not None:
        say_json({"thread": thread, "format": kind, "file": str(output), "bytes": size})


@contextmanager
def _writing(output: Path | None) -> Iterator[Callable[[bytes], None]]:
    """Yield a function that writes; a file appears when it is complete, readable by its owner."""
    if output is None:
        yield _show if sys.stdout.isatty() else say_bytes
        return
    with open_replacement(output) as file:
        yield lambda line: _put(file.write, line)


def _put(write: Callable[[bytes], int], line: bytes) -> None:
    write(line)


def _show(line: bytes) -> None:
    say(line.decode(errors="replace").removesuffix("\n"))
