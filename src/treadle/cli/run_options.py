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

__all__ = ["RunOptions", "take_run_options", "with_run_options"]

_SANDBOXES = ("read-only", "workspace-write", "danger-full-access")
_APPROVALS = ("never", "on-request", "untrusted")

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
        "--sandbox", type=click.Choice(_SANDBOXES), help="What commands may read and write."
    ),
    click.option(
        "--approval", type=click.Choice(_APPROVALS), help="When to ask you before a command runs."
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
    cwd_option,
)


class RunOptions(Struct, frozen=True, kw_only=True):
    """The options that were given; None leaves a value to the configuration."""

    model: str | None = None
    fallbacks: tuple[str, ...] = ()
    profile: str | None = None
    effort: str | None = None
    engine: str | None = None
    harness: str | None = None
    channel: str | None = None
    sandbox: str | None = None
    approval: str | None = None
    network: bool | None = None
    add_dirs: tuple[Path, ...] = ()
    yolo: bool = False
    cwd: Path | None = None

    def flags(self) -> dict[str, tuple[str, Any]]:
        """Return the given values by key of the configuration, each with its flag."""
        if self.yolo and (self.sandbox or self.approval):
            raise click.UsageError("--yolo already sets --sandbox and --approval; leave them out.")
        given: dict[str, tuple[str, Any]] = {
            name: (f"--{name}", value)
            for name in Settings.__struct_fields__
            if (value := getattr(self, name, None)) not in (None, ())
        }
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


def take_run_options(asked: dict[str, Any]) -> RunOptions:
    """Take the options of `RunOptions` out of all that a command was given."""
    return RunOptions(**{name: asked.pop(name) for name in RunOptions.__struct_fields__})
