"""`treadle exec`: one turn, for scripts and for people in a hurry."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, UnsetType

from ...core.errors import TreadleError
from ...core.wire import Json
from ...prompt.input import LocalImage
from ..chosen_channels import chosen_channel
from ..cli_home import Home
from ..command_options import as_json, prompt_argument, runs
from ..exec_report import ExecReport, JsonReport, PlainReport
from ..interrupts import INTERRUPTED, LIMITED
from ..late_start import LateStart
from ..lazy_group import examples
from ..model_hints import unknown_model_hint
from ..output import printable
from ..output_schema import read_output_schema, with_input_files
from ..run_options import RunOptions, take_run_options, with_run_options, with_worktree
from ..single_turn import SingleTurn
from ..spinner import Spinner
from ..terminal_input import is_attended
from ..thread_choice import ThreadChoice, take_thread_choice, with_thread_choice
from ..thread_heading import about
from ..thread_setup import Setup, open_thread, prepare, warn_of_project

__all__ = ["command"]

_CODES = {"completed": 0, "failed": 1, "interrupted": INTERRUPTED}


class ExecRequest(Struct, frozen=True, kw_only=True):
    """What the turn is about, and what is wanted of it."""

    text: str | None
    images: tuple[Path, ...]
    output_schema: Path | None
    output: Path | None
    show_usage: bool
    as_json: bool
    title: str = ""


@click.command(
    "exec",
    epilog=examples(
        'treadle exec "make the tests pass"',
        'git diff | treadle exec "review this" -o review.md',
        'treadle exec --last "and now the docs"',
        'treadle exec --json --sandbox read-only "what is this?"',
        'treadle exec --harness codex "fix the bug"',
        'treadle exec --max-cost 0.50 --max-time 10m "fix the bug"',
    ),
)
@prompt_argument
@with_input_files
@with_thread_choice
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Also write the last message to this file, unchanged.",
)
@click.option("--show-usage", is_flag=True, help="Print the token usage on standard error.")
@with_worktree
@with_run_options
@as_json
@runs
async def command(home: Home, *, worktree: str | None, **asked: Any) -> int:
    """Run one turn and print the answer.

    Without PROMPT, or with `-`, the prompt is read from standard input. With a PROMPT, piped
    input is added after it. With --resume or --last and no PROMPT, the turn handles the
    messages in the inbox of the thread. The command waits for agents that the turn started.

    The answer goes to standard output, and the activity of the agent to standard error.
    With --json, every event is one line on standard output. A NO_REPLY answer is not shown.
    Without a terminal, calls that need an approval are refused. The exit code is 0 when the
    turn completed, 1 when it failed, 3 when it reached a limit (--max-cost and the like) and
    130 when it was interrupted. A second Ctrl-C leaves at once.
    """
    choice, options = take_thread_choice(asked), take_run_options(asked)
    request = ExecRequest(**asked)
    _check(request, choice)
    if worktree is None:
        return await _prepare_and_run(home, options, choice, request)
    from ..worktree_use import use_worktree  # a word of few runs

    async with use_worktree(home, options, worktree, request.text) as placed:
        return await _prepare_and_run(home, placed, choice, request)


async def _prepare_and_run(
    home: Home, options: RunOptions, choice: ThreadChoice, request: ExecRequest
) -> int:
    attended = is_attended() and not request.as_json
    thread = await choice.find(home, options.place or options.cwd)
    setup = await prepare(home, options, thread, attended=attended)
    schema = read_output_schema(request.output_schema, setup)
    await _check_codex_login(setup)
    warn_of_project(setup)
    chosen = chosen_channel(setup.settings)
    shown = chosen is None or chosen[1].kind != "terminal"
    report: ExecReport = (
        JsonReport()
        if request.as_json
        else PlainReport(sys.stdout.isatty(), shown, spinner=_spinner(setup))
    )
    return await _run(setup, request, schema, report, attended=attended)


def _check(request: ExecRequest, choice: ThreadChoice) -> None:
    nothing = not (request.text or "").strip() and not request.images
    if nothing and not choice:
        raise click.UsageError("there is no PROMPT, and standard input is empty")
    if request.output is not None and not request.output.absolute().parent.is_dir():
        place = str(request.output.absolute().parent)
        raise click.UsageError(f"there is no directory {place!r} for --output; make it first")


async def _check_codex_login(setup: Setup) -> None:
    """Refuse a model that only a logged-in Codex reaches, before a thread is made for it."""
    if (setup.model or "").startswith("codex"):
        from ..ways_in import missing_access  # a word of few runs

        if missing := await missing_access(setup):
            raise TreadleError(missing)


async def _run(
    setup: Setup,
    request: ExecRequest,
    schema: Json | UnsetType,
    report: ExecReport,
    *,
    attended: bool,
) -> int:
    words = (request.text,) if (request.text or "").strip() else ()
    inputs = (*words, *map(LocalImage, request.images))
    terminal = sys.stderr if request.as_json else sys.stdout
    async with open_thread(setup, terminal=terminal) as thread:
        report = LateStart(report, thread.id, about(setup, thread))
        single = SingleTurn(thread, report, setup.settings, attended=attended)
        try:
            done = await single.run(*inputs, schema=schema)
        except TreadleError as error:
            report.show_failure(str(error))
            raise
        if hint := unknown_model_hint(thread, done):
            click.echo(printable(hint), err=True)
        if request.output is not None and done.status == "completed":
            request.output.write_text(done.text, encoding="utf-8")
        if request.show_usage:
            click.echo(printable(single.meter.line()), err=True)
        await single.wait_for_engine()
    return _CODES[done.status] if done.limit is None else LIMITED


def _spinner(setup: Setup) -> Spinner | None:
    """Return what moves on standard error, where it is a terminal that can erase a line."""
    dumb = setup.settings.plain or os.environ.get("TERM") == "dumb"
    return Spinner() if sys.stderr.isatty() and not dumb else None
