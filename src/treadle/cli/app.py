"""The `treadle` command: its global options, its commands, and how it ends.

Owns the exit codes: 0 done, 1 could not, 2 asked wrongly, 130 interrupted.
Invariant: what goes wrong on purpose is one line on standard error, never a traceback.
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
    "chat": "Talk with the agent; `treadle` alone does this too.",
    "exec": "Run one turn and print the answer.",
    "new": "Make a thread, with a first input if you give one.",
    "send": "Leave a message for a thread.",
    "threads": "List threads, or search what was said in them.",
    "show": "Read a thread.",
    "recall": "Find what was said in any thread, and open it again.",
    "fork": "Make a thread that goes on from a point of another.",
    "rollback": "Hide the last turns of a thread from the model.",
    "delete": "Forget a thread.",
    "import": "Bring in sessions of Codex, Claude Code, OpenClaw, or plain JSONL.",
    "export": "Write a thread to a file: JSONL, a Codex rollout, or Markdown.",
    "plan": "Show what would be decided before a turn, and why.",
    "prompt": "Show the exact request that would be sent.",
    "cache": "Show how much of each request its predecessor had in cache.",
    "prompts": "List, import and show the texts that instruct models.",
    "models": "List what is known about models.",
    "engines": "List the context engines, and how each is doing.",
    "harnesses": "List what can run turns, and which one a model gets.",
    "codex": "Tell which Codex is there, and which threads are bound to it.",
    "lossless": "Look after the engine that forgets nothing: summaries, debts, files.",
    "auth": "Keep keys and tokens of providers, and see how they are doing.",
    "config": "Show the settings in force, and where each is from.",
    "trust": "Let a project's configuration count.",
    "patch": "Apply a patch from standard input, whole or not at all.",
    "contracts": "Play the contract matrix: every promise, on every harness.",
    "fake": "Serve a script as a model endpoint, for tests and demos.",
    "home": "Tell where threads and settings live, and move an old home.",
    "doctor": "Check what is installed and what works.",
}

_FAILED = 1
_INTERRUPTED = 130


class ReaderGone(Exception):
    """Whoever read our output had enough of it."""


class _Treadle(LazyGroup):
    """The group; click would answer a closed pipe with a failure of its own."""

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
        "treadle                          talk with the agent",
        'treadle exec "fix the bug"       let it do one thing',
        "treadle show last                read what it did",
        'treadle prompt "fix the bug"     what would be sent, item by item',
        "treadle doctor                   what works on this machine",
    ),
)
@click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="TREADLE_HOME",
    help="Where threads and settings live [env: TREADLE_HOME; else the user's data directory].",
)
@click.version_option(__version__, "-V", "--version", message="treadle %(version)s")
@click.pass_context
def treadle(ctx: click.Context, home: Path | None) -> None:
    """A runtime for coding agents in which what the model sees is engineered.

    THREAD is an id, the beginning or end of one, a title, or `last`.
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
    """Say why a command did not end well, and give its exit code."""
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
            return _say(f"{error.object!r} cannot be written as UTF-8; spell it otherwise", _FAILED)
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
    """Let what is still buffered go nowhere: Python would try to write it once more at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
