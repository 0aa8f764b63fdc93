"""The `treadle` command: its global options, its commands, and how it ends.

Owns the exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted.
Invariant: an expected error is one line on standard error, never a traceback.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from .. import __version__
from ..core.errors import TreadleError
from .lazy_group import LazyGroup, examples

__all__ = ["COMMANDS", "ReaderGone", "run", "treadle"]

COMMANDS = {
    "chat": "Chat with the agent; the same as `treadle` alone.",
    "exec": "Run one turn and print the answer.",
    "new": "Create a thread, with a first input if you give one.",
    "send": "Send a message to a thread.",
    "threads": "List threads, or search in them.",
    "show": "Print a thread.",
    "recall": "Search all threads, and print the entries that were found.",
    "fork": "Create a thread that continues from a point of another.",
    "rollback": "Hide the last turns of a thread from the model.",
    "delete": "Delete a thread.",
    "import": "Import sessions of Codex, Claude Code, OpenClaw, or plain JSONL.",
    "export": "Write a thread to a file: JSONL, a Codex rollout, or Markdown.",
    "plan": "Show the decisions for the next turn, and the reasons.",
    "prompt": "Show the exact request that the next turn would send.",
    "cache": "Show how much of each request is the same as in the one before it.",
    "prompts": "List, import and show the instruction texts of models.",
    "models": "List the known models.",
    "engines": "List the context engines and their state.",
    "harnesses": "List the harnesses, and the one that runs a model.",
    "codex": "Show the installed Codex, and the threads that are bound to it.",
    "lossless": "Inspect, check and back up the lossless engine.",
    "auth": "Manage the keys and tokens of providers.",
    "config": "Show the settings, and where each comes from.",
    "trust": "Trust the configuration of a project.",
    "patch": "Apply a patch from standard input, completely or not at all.",
    "contracts": "Run the contract matrix: every promise, on every harness.",
    "fake": "Serve a script as a model endpoint, for tests and demos.",
    "home": "Show the home directory, and move an old one.",
    "doctor": "Check the installation.",
}

_FAILED = 1
_INTERRUPTED = 130


class ReaderGone(Exception):
    """The reader of our output closed the pipe."""


class _Treadle(LazyGroup):
    """The group; without it, click would report a closed pipe as a failure."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGone from error


@click.group(
    cls=_Treadle,
    table=COMMANDS,
    package="treadle.cli.commands",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "treadle                          chat with the agent",
        'treadle exec "fix the bug"       run one turn',
        "treadle show last                print the last thread",
        'treadle prompt "fix the bug"     show the request, item by item',
        "treadle doctor                   check the installation",
    ),
)
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="TREADLE_HOME",
    help="The directory of threads and settings  "
    "[env: TREADLE_HOME; default: the user's data directory]",
)
@click.version_option(__version__, "-V", "--version", message="treadle %(version)s")
@click.pass_context
def treadle(ctx: click.Context, home: Path | None) -> None:
    """A coding agent, and a runtime that controls exactly what the model sees.

    THREAD is an id, the beginning or end of an id, a title, or `last`.
    """
    from .cli_home import Home
    from .log_lines import show_logs

    show_logs()
    ctx.obj = Home(home)
    if ctx.invoked_subcommand is not None:
        return
    if sys.stdin.isatty() and sys.stdout.isatty():
        from .commands.chat import command

        ctx.invoke(command)
    else:
        click.echo(ctx.get_help())


_EXPECTED_ERRORS = (
    click.ClickException,
    click.Abort,
    KeyboardInterrupt,
    TreadleError,
    UnicodeEncodeError,
    OSError,
    ReaderGone,
)


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a character should not end the command.
            stream.reconfigure(errors="replace")
    try:
        code = treadle.main(args, prog_name="treadle", standalone_mode=False)
        sys.stdout.flush()
    except _EXPECTED_ERRORS as error:
        return _report_error(error)
    return code if isinstance(code, int) else 0


def _report_error(error: BaseException) -> int:
    """Print why a command failed, and return its exit code."""
    match error:
        case click.Abort() | KeyboardInterrupt():
            return _say("interrupted", _INTERRUPTED)
        case click.UsageError():
            said = io.StringIO()
            error.show(file=said)
            click.echo(_safe(said.getvalue()), nl=False, err=True)
            return error.exit_code
        case click.ClickException():
            return _say(error.format_message(), error.exit_code)
        case TreadleError():
            return _say(str(error), _FAILED)
        case UnicodeEncodeError():
            return _say(
                f"{error.object!r} cannot be written as UTF-8; use other characters", _FAILED
            )
        case ReaderGone() | BrokenPipeError():
            _discard_output()
            return 0
        case OSError():
            _discard_output()
            return _say(_system_error_text(error), _FAILED)
    raise AssertionError(error)


def _say(message: str, code: int) -> int:
    click.echo(f"treadle: {_safe(message)}", err=True)
    return code


def _safe(message: str) -> str:
    from .output import printable

    return printable(message)


def _system_error_text(error: OSError) -> str:
    where = f": {error.filename!r}" if error.filename else ""
    remedy = "check the owner, the mode and the free space there"
    return f"{error.strerror or error}{where}; {remedy}"


def _discard_output() -> None:
    """Discard buffered output: Python would try to write it again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
