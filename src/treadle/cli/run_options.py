"""The options of the command line about how turns run.

Owns those options for every command that runs turns or shows what one would send.
Invariant: a flag is the last layer of the configuration, and only if it was given.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from ..config.settings import Settings
from .command_options import cwd_option, model_option
from .durations import Duration

__all__ = [
    "APPROVALS",
    "SANDBOXES",
    "RunOptions",
    "take_run_options",
    "with_run_options",
    "with_worktree",
]

SANDBOXES = ("read-only", "workspace-write", "danger-full-access")
APPROVALS = ("never", "on-request", "untrusted")

_LIMITS = {
    "cost": "max_cost",
    "steps": "max_steps",
    "seconds": "max_time",
    "tokens": "max_tokens",
}
"""The keys of `[limits]`, and the options that set them."""

_OPTIONS = (
    model_option,
    click.option(
        "--fallback",
        "fallbacks",
        metavar="MODEL",
        multiple=True,
        help="Ask this model when the first one does not answer; can be repeated.",
    ),
    click.option(
        "--profile",
        metavar="ID",
        help="Use this credential profile for the thread (see `treadle auth`).",
    ),
    click.option("--effort", metavar="EFFORT", help="The reasoning effort of the model."),
    click.option(
        "--mode",
        type=click.Choice(["default", "plan"]),
        help="How you work together; plan: the model plans and changes nothing.",
    ),
    click.option(
        "--personality", metavar="TEXT", help="The manner of speaking that you want, in your words."
    ),
    click.option(
        "--engine",
        metavar="ID",
        help="The context engine  [default: TREADLE_ENGINE, the configured one, linear]",
    ),
    click.option(
        "--harness",
        metavar="NAME",
        help="The harness that runs turns: auto, treadle, codex, or one of `treadle harnesses`.",
    ),
    click.option(
        "--channel",
        metavar="NAME",
        help="Also send replies to this channel of your settings ([channels.NAME]).",
    ),
    click.option(
        "--max-cost",
        type=click.FloatRange(min=0, min_open=True),
        metavar="AMOUNT",
        help="End the turn when it has cost this much, in the currency of the model's price.",
    ),
    click.option(
        "--max-steps",
        type=click.IntRange(min=1),
        metavar="N",
        help="End the turn when models have answered N requests of it.",
    ),
    click.option(
        "--max-time",
        type=Duration(),
        metavar="TIME",
        help="End the turn after this time: 30s, 10m or 1h.",
    ),
    click.option(
        "--max-tokens",
        type=click.IntRange(min=1),
        metavar="N",
        help="End the turn when it has used N tokens, in and out.",
    ),
    click.option(
        "--sandbox", type=click.Choice(SANDBOXES), help="What commands may read and write."
    ),
    click.option(
        "--approval", type=click.Choice(APPROVALS), help="When to ask you before a command runs."
    ),
    click.option(
        "--executor",
        metavar="WHERE",
        help="Where commands run: local, docker:IMAGE, podman:IMAGE, ssh:HOST[:DIR], "
        "pipe:COMMAND, e2b:TEMPLATE, kubernetes:IMAGE  [default: where the thread was, else local]",
    ),
    click.option(
        "--network/--no-network",
        default=None,
        help="Allow or forbid the network for sandboxed commands.",
    ),
    click.option(
        "--add-dir",
        "add_dirs",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Allow commands to write in this directory too; can be repeated.",
    ),
    click.option(
        "--yolo",
        is_flag=True,
        help="Use no sandbox and ask for no approvals: commands can do everything that you can.",
    ),
    click.option(
        "--plain",
        is_flag=True,
        default=None,
        help="Print lines of text only: no colours, no moving parts, for screen readers.",
    ),
    cwd_option,
)


class RunOptions(Struct, frozen=True, kw_only=True):
    """The options that were given; None leaves a value to the configuration."""

    model: str | None = None
    fallbacks: tuple[str, ...] = ()
    profile: str | None = None
    effort: str | None = None
    mode: str | None = None
    personality: str | None = None
    engine: str | None = None
    harness: str | None = None
    channel: str | None = None
    max_cost: float | None = None
    max_steps: int | None = None
    max_time: float | None = None
    max_tokens: int | None = None
    sandbox: str | None = None
    approval: str | None = None
    executor: str | None = None
    network: bool | None = None
    add_dirs: tuple[Path, ...] = ()
    yolo: bool = False
    plain: bool | None = None
    cwd: Path | None = None
    place: Path | None = None
    """Where the thread works, if that is not `cwd`: a worktree."""

    def flags(self) -> dict[str, tuple[str, Any]]:
        """Return the given values by key of the configuration, each with its flag."""
        if self.yolo and (self.sandbox or self.approval):
            raise click.UsageError("--yolo already sets --sandbox and --approval; leave them out.")
        given: dict[str, tuple[str, Any]] = {
            name: (f"--{name}", value)
            for name in Settings.__struct_fields__
            if name != "executor" and (value := getattr(self, name, None)) not in (None, ())
        }
        for key, name in _LIMITS.items():
            if (most := getattr(self, name)) is not None:
                given[f"limits.{key}"] = (f"--{name.replace('_', '-')}", most)
        if self.executor is not None:
            given["executor.where"] = ("--executor", self.executor)
        if self.fallbacks:
            given["fallbacks"] = ("--fallback", list(self.fallbacks))
        if self.yolo:
            given |= {"sandbox": ("--yolo", "danger-full-access"), "approval": ("--yolo", "never")}
        return given


def with_run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `RunOptions`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def with_worktree(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option `--worktree`."""
    return click.option(
        "--worktree",
        metavar="[NAME]",
        is_flag=False,
        flag_value="",
        help="Work in a git worktree of its own, on the branch treadle/NAME; also --worktree=NAME.",
    )(function)


def take_run_options(asked: dict[str, Any]) -> RunOptions:
    """Take the options of `RunOptions` out of all that a command was given."""
    names = [name for name in RunOptions.__struct_fields__ if name in asked]
    return RunOptions(**{name: asked.pop(name) for name in names})
