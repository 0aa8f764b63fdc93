"""`treadle eval`: run tasks, grade them, and write down what it cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..cli_home import Home
from ..command_options import as_json, runs
from ..evaluation_run import EvalRequest, run_evaluation
from ..lazy_group import examples
from ..run_options import take_run_options, with_run_options

__all__ = ["command"]


@click.command(
    "eval",
    epilog=examples(
        "treadle eval evaluation/tasks --scripted -o runs/try",
        "treadle eval tasks/fix-dates --model ollama:qwen3-coder -o runs/local",
        "treadle eval tasks -n 4 --attempts 3 --max-cost 0.50 -o runs/first",
        "treadle eval tasks --harness codex --commands-in sandbox -o runs/codex",
    ),
)
@click.argument(
    "tasks",
    metavar="TASKS...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
)
@click.option(
    "--output",
    "-o",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory of the run; the same command again goes on with it.",
)
@click.option(
    "-n",
    "--at-once",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    metavar="N",
    help="How many attempts run at once.",
)
@click.option(
    "--attempts",
    type=click.IntRange(1, 1_000),
    default=1,
    show_default=True,
    metavar="N",
    help="How often each task is tried.",
)
@click.option(
    "--commands-in",
    type=click.Choice(["box", "sandbox"]),
    default="box",
    show_default=True,
    help="A container of namespaces with the paths of the task, or the usual sandbox in the "
    "workspace itself, as Codex needs it.",
)
@click.option(
    "--scripted",
    is_flag=True,
    help="No model: each task is solved by its own solution/script.toml.",
)
@click.option(
    "--again",
    is_flag=True,
    help="Run those attempts once more that failed, or that the tests could not grade.",
)
@with_run_options
@as_json
@runs
async def command(home: Home, **asked: Any) -> int:
    """Run tasks in Harbor's format, each graded by its own tests.

    TASKS are directories: each a task (task.toml, instruction.md, environment, tests), or one
    that holds tasks. An attempt gets a workspace and a thread of its own; nobody is there to be
    asked. Its limits are those of the options and of the task's own [agent] timeout.

    What is over is never run again: after Ctrl-C, or `kill -9`, the same command goes on, also
    in the middle of a turn. In the directory of the run are results.json, table.md, index.html
    and, for each attempt, what it changed (changes.patch), its trajectory (ATIF), the
    output of its tests, and its workspace.

    With --json, every step is one line on standard output; the last one is the table. The exit
    code is 0 when every attempt is over, solved or not, 1 when one has no result, 2 for a task
    that cannot be run, and 130 when it was interrupted.
    """
    options = take_run_options(asked)
    return await run_evaluation(home, options, EvalRequest(**asked))
