"""The `treadle` command: its global options, its commands, and how it ends.

Owns the exit codes: 0 success, 1 failure, 2 wrong usage, 3 a limit, 130 interrupted.
Invariant: an expected error is one line on standard error, never a traceback.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from .. import __version__
from ..core.errors import InvalidOption, TreadleError
from .lazy_group import LazyGroup, examples

__all__ = ["COMMANDS", "ReaderGone", "run", "treadle"]

COMMANDS = {
    "chat": "Chat with the agent; the same as `treadle` alone.",
    "exec": "Run one turn and print the answer.",
    "eval": "Run tasks, have their tests grade them, and compare what it cost.",
    "review": "Review changes: the working tree, a branch or a commit.",
    "resume": "Continue a thread of this directory; without THREAD, choose one.",
    "setup": "Choose a model, store its key and set the rights, in three questions.",
    "new": "Create a thread, with a first input if you give one.",
    "send": "Send a message to a thread.",
    "work": "Run turns that nobody runs: of messages, and left by the dead.",
    "threads": "List threads, or search in them.",
    "show": "Print a thread.",
    "recall": "Search all threads, and print the entries that were found.",
    "fork": "Create a thread that continues from a point of another.",
    "rewind": "Take back the last turns of a thread, and the files they changed.",
    "move": "Take a thread, with its files, to another place of commands.",
    "delete": "Delete a thread.",
    "worktrees": "List and remove the git worktrees of agents and chats.",
    "processes": "List and stop the commands that threads have running.",
    "prune": "Delete threads that nobody has written for long.",
    "gc": "Delete what nobody needs any more.",
    "import": "Import sessions of Codex, Claude Code, OpenClaw, or plain JSONL.",
    "export": "Write a thread to a file: JSONL, a Codex rollout, Markdown, or ATIF.",
    "transfer": "Move threads into another store: a database, or a file.",
    "plan": "Show the decisions for the next turn, and the reasons.",
    "prompt": "Show the exact request that the next turn would send.",
    "context": "Show what fills the window of a thread's model, in tokens and money.",
    "cost": "Show what was spent, by day, project, model, thread or agent.",
    "web": "Show in the browser what the model saw, live, of every thread.",
    "cache": "Show how much of each request is the same as in the one before it.",
    "prompts": "List, import and show the instruction texts of models.",
    "models": "List the known models, by provider.",
    "agents": "List the kinds of agents that files define.",
    "engines": "List the context engines and their state.",
    "harnesses": "List the harnesses, and the one that runs a model.",
    "codex": "Show the installed Codex, and the threads that are bound to it.",
    "lossless": "Inspect, check and back up the lossless engine.",
    "auth": "Manage the keys and tokens of providers.",
    "config": "Show the settings, and where each comes from.",
    "skills": "List, check and trust skills: instructions for one task.",
    "plugin": "Use parts of plug-in directories that were made for other agents.",
    "mcp": "Add, list and test MCP servers, whose tools the model may call.",
    "acp": "Serve an editor, over the Agent Client Protocol.",
    "trust": "Trust the configuration of a project.",
    "patch": "Apply a patch from standard input, completely or not at all.",
    "contracts": "Run the contract matrix: every promise, on every harness.",
    "fake": "Serve a script as a model endpoint, for tests and demos.",
    "home": "Show the home directory, and move an old one.",
    "doctor": "Check the installation.",
    "help": "Print the help of a command.",
}

_FAILED = 1
_WRONG_USAGE = 2
_INTERRUPTED = 130


class ReaderGone(Exception):
    """The reader of our output closed the pipe."""


class _Treadle(LazyGroup):
    """The group. What names no command is for the chat: options of it, or words to say."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `chat` before what is meant for it."""
        at = _first_for_command(args)
        if at is not None and (args[at].startswith("-") or len(args[at].split()) > 1):
            args = [*args[:at], "chat", *args[at:]]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGone from error


_VALUED = ("--home", "--store", "--log-level", "--log-format")
_OWN_FLAGS = ("-h", "--help", "-V", "--version")


def _first_for_command(args: Sequence[str]) -> int | None:
    """Return where the options of `treadle` itself end; None where nothing follows them."""
    at = 0
    while at < len(args):
        if args[at] in _VALUED:
            at += 2
        elif args[at] in _OWN_FLAGS or args[at].partition("=")[0] in _VALUED:
            at += 1
        else:
            return at
    return None


@click.group(
    cls=_Treadle,
    table=COMMANDS,
    package="treadle.cli.commands",
    renamed={"rollback": "rewind"},
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "treadle                          chat with the agent",
        'treadle "fix the bug"            the same, with your first words',
        "treadle --last                   continue the last chat of this directory",
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
@click.option(
    "--store",
    metavar="ADDRESS",
    envvar="TREADLE_STORE",
    help="Where threads live: postgresql://USER@HOST/DATABASE, or sqlite  "
    "[env: TREADLE_STORE; default: `store` of the settings, else a file in the home]",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    envvar="TREADLE_LOG_LEVEL",
    default="warning",
    help="What is logged on standard error  [env: TREADLE_LOG_LEVEL; default: warning]",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    envvar="TREADLE_LOG_FORMAT",
    default="text",
    help="How it is logged: lines for people, or JSON  [env: TREADLE_LOG_FORMAT; default: text]",
)
@click.version_option(__version__, "-V", "--version", message="treadle %(version)s")
@click.pass_context
def treadle(
    ctx: click.Context,
    home: Path | None,
    store: str | None,
    log_level: Literal["debug", "info", "warning", "error"],
    log_format: Literal["text", "json"],
) -> None:
    """A coding agent, and a runtime that controls exactly what the model sees.

    Words or options that name no command are for `treadle chat`. THREAD is an id, the
    beginning or end of an id, a title, or `last`: the thread of this directory that was
    written last.
    """
    from .cli_home import Home
    from .log_lines import show_logs

    show_logs(log_level, log_format)
    ctx.obj = Home(home, store)
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
            return _say(_usage_text(error), error.exit_code)
        case click.ClickException():
            return _say(error.format_message(), error.exit_code)
        case InvalidOption():
            return _say(str(error), _WRONG_USAGE)
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


def _usage_text(error: click.UsageError) -> str:
    """Return on one line what was wrong, and where to read on unless that is said."""
    text = " ".join(error.format_message().split()).removesuffix(".")
    text = _plain_words(text[:1].lower() + text[1:])
    if "; " in text:
        return text
    command = "treadle" if error.ctx is None else error.ctx.command_path
    return f"{text}; `{command} --help` shows how to use it"


def _plain_words(text: str) -> str:
    """Return what Click says in the words of our other errors."""
    text = re.sub(r"\. \(?Did you mean (?:one of: )?(.*?)\?\)?$", r"; did you mean \1?", text)
    text = text.replace("', '", "' or '") if "; did you mean" in text else text
    text = re.sub(r"is not a valid float( range)?$", "is no number", text)
    return re.sub(r"is not a valid integer( range)?$", "is no whole number", text)


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
