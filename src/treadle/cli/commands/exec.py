"""`treadle exec`: one turn, for scripts and for people in a hurry."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import UNSET, Struct, UnsetType

from ...core.errors import TreadleError
from ...core.wire import Json, json_bytes
from ...sandbox.reading import open_for_model
from ..chosen_channels import chosen_channel
from ..cli_home import Home
from ..command_options import as_json, prompt_argument, runs
from ..exec_report import JsonReport, PlainReport, TurnReport
from ..interrupts import INTERRUPTED
from ..lazy_group import examples
from ..output import printable
from ..run_options import take_run_options, with_run_options
from ..single_turn import SingleTurn
from ..terminal_input import is_attended
from ..thread_setup import Setup, about, open_thread, prepare, warn_of_project

__all__ = ["command"]

_CODES = {"completed": 0, "failed": 1, "interrupted": INTERRUPTED}


class ExecRequest(Struct, frozen=True, kw_only=True):
    """What the turn is about, and what is wanted of it."""

    text: str | None
    images: tuple[Path, ...]
    resume: str | None
    last: bool
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
    ),
)
@prompt_argument
@click.option(
    "--image",
    "images",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Send this image to the model; can be repeated.",
)
@click.option("--resume", metavar="THREAD", help="Continue this thread.")
@click.option("--last", is_flag=True, help="Continue the thread that was written last.")
@click.option(
    "--output-schema",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the JSON schema of the answer.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Also write the last message to this file, unchanged.",
)
@click.option("--show-usage", is_flag=True, help="Print the token usage on standard error.")
@with_run_options
@as_json
@runs
async def command(home: Home, **asked: Any) -> int:
    """Run one turn and print the answer.

    Without PROMPT, or with `-`, the prompt is read from standard input. With a PROMPT, piped
    input is added after it. With --resume or --last and no PROMPT, the turn handles the
    messages in the inbox of the thread. The command waits for agents that the turn started.

    The answer goes to standard output, and the activity of the agent to standard error.
    With --json, every event is one line on standard output. A NO_REPLY answer is not shown.
    Without a terminal, calls that need an approval are refused. The exit code is 0 when the
    turn completed, 1 when it failed and 130 when it was interrupted. A second Ctrl-C leaves
    at once.
    """
    options, request = take_run_options(asked), ExecRequest(**asked)
    _check(request)
    attended = is_attended() and not request.as_json
    setup = await prepare(home, options, _thread(request), attended=attended)
    schema = _schema(request.output_schema, setup)
    warn_of_project(setup)
    chosen = chosen_channel(setup.settings)
    shown = chosen is None or chosen[1].kind != "terminal"
    report: TurnReport = (
        JsonReport() if request.as_json else PlainReport(sys.stdout.isatty(), shown)
    )
    return await _run(setup, request, schema, report, attended=attended)


def _check(request: ExecRequest) -> None:
    if request.last and request.resume:
        raise click.UsageError("--last and --resume both name a thread; leave one out.")
    nothing = not (request.text or "").strip() and not request.images
    if nothing and not (request.last or request.resume):
        raise click.UsageError("There is no PROMPT, and standard input is empty.")
    if request.output is not None and not request.output.absolute().parent.is_dir():
        place = str(request.output.absolute().parent)
        raise click.UsageError(f"There is no directory {place!r} for --output.")


async def _run(
    setup: Setup,
    request: ExecRequest,
    schema: Json | UnsetType,
    report: TurnReport,
    *,
    attended: bool,
) -> int:
    from ...prompt.input import LocalImage

    words = (request.text,) if (request.text or "").strip() else ()
    inputs = (*words, *map(LocalImage, request.images))
    terminal = sys.stderr if request.as_json else sys.stdout
    async with open_thread(setup, terminal=terminal) as thread:
        single = SingleTurn(thread, report, setup.settings, attended=attended)
        report.show_start(thread.id, about(setup, thread))
        try:
            done = await single.run(*inputs, schema=schema)
        except TreadleError as error:
            report.show_failure(str(error))
            raise
        if request.output is not None and done.status == "completed":
            request.output.write_text(done.text, encoding="utf-8")
        if request.show_usage:
            click.echo(printable(single.meter.line()), err=True)
        await single.wait_for_engine()
    return _CODES[done.status]


def _thread(request: ExecRequest) -> str | None:
    return "last" if request.last else request.resume


def _schema(file: Path | None, setup: Setup) -> Json | UnsetType:
    if file is None:
        return UNSET
    try:
        # The provider is sent it, so a repository's link leads no further than for the model.
        with open_for_model(setup.cwd, setup.home, file) as opened:
            schema = msgspec.json.decode(opened.read(), type=dict[str, Any])
    except OSError as error:
        raise click.ClickException(
            f"{str(file)!r} cannot be read: it {error.strerror}; name another file"
        ) from error
    except msgspec.DecodeError as error:
        raise click.ClickException(
            f"{str(file)!r} is not a JSON schema: {error}; write a JSON object"
        ) from error
    return Json(json_bytes(schema))
