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
        help="A model to ask where the other does not answer; may be given again.",
    ),
    click.option(
        "--profile", metavar="ID", help="Whose credentials the thread keeps to (`treadle auth`)."
    ),
    click.option("--effort", metavar="EFFORT", help="How hard the model thinks."),
    click.option(
        "--engine",
        metavar="ID",
        help="Who plans what the model sees  [default: TREADLE_ENGINE, the configured one, linear]",
    ),
    click.option(
        "--harness",
        metavar="NAME",
        help="What runs the turns: auto, treadle, codex, or another of `treadle harnesses`.",
    ),
    click.option(
        "--channel",
        metavar="NAME",
        help="Where replies go besides: a channel of your settings ([channels.NAME]).",
    ),
    click.option("--sandbox", type=click.Choice(_SANDBOXES), help="What commands may touch."),
    click.option(
        "--approval", type=click.Choice(_APPROVALS), help="When you are asked before one runs."
    ),
    click.option(
        "--network/--no-network", default=None, help="Whether sandboxed commands reach the network."
    ),
    click.option(
        "--add-dir",
        "add_dirs",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Another directory that commands may write in; may be given again.",
    ),
    click.option(
        "--yolo",
        is_flag=True,
        help="No sandbox and no approvals: commands can do whatever you can.",
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
            raise click.UsageError("--yolo already says --sandbox and --approval.")
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
