"""`treadle doctor`: check the installation."""

from __future__ import annotations

import os

import click

from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..output import Column, say, say_json, table, working
from ..probes import Check, examine

__all__ = ["command"]

_COLUMNS = (Column("STATUS"), Column("WHAT"), Column("DETAIL", gives=True))


@click.command(
    "doctor",
    epilog=examples(
        "treadle doctor", """treadle doctor --json | jq '.checks[] | select(.status != "ok")'"""
    ),
)
@as_json
@click.pass_obj
def command(home: Home, as_json: bool) -> None:
    """Check the installation, and print how to fix each problem.

    The exit code is 1 when something that Treadle needs does not work. The output shows
    whether API keys are set, but never the keys.
    """
    with working("checking") as tell:
        checks = list(examine(home.path, os.environ, tell, address=lambda: home.address))
    failed = any(check.status == "fail" for check in checks)
    if as_json:
        say_json({"ok": not failed, "checks": checks})
    else:
        _print(checks)
    if failed:
        raise click.exceptions.Exit(1)


def _print(checks: list[Check]) -> None:
    table(_COLUMNS, [[check.status, check.name, check.detail] for check in checks])
    troubled = [check for check in checks if check.remedy]
    if troubled:
        say("\nwhat to do:")
    for check in troubled:
        say(f"  {check.name}: {check.remedy}")
