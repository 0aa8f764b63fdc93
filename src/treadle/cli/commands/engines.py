"""`treadle engines`: list the context engines and their state."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ...config import Settings, load_config
from ...core.errors import EngineConflict
from ...engines.loading import EngineRegistry, canonical_name
from ..cli_home import Home
from ..command_options import as_json
from ..engine_states import (
    INSPECT_SECONDS,
    EngineState,
    WaitingTurn,
    engine_states,
    inspect_engine,
    inspect_factory,
)
from ..lazy_group import examples
from ..output import Column, iso, printable, say, say_json, table

__all__ = ["command"]

_COLUMNS = (
    Column("ENGINE"),
    Column("STATE"),
    Column("VERSION"),
    Column("OWNER"),
    Column("TURNS"),
    Column("COMPACTION"),
    Column("MAINTENANCE"),
    Column("POWERS", gives=True),
)


@click.group(
    "engines",
    invoke_without_command=True,
    epilog=examples("treadle engines", "treadle engines check my_engine:engine"),
)
@as_json
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the installed context engines and their state.

    `*` marks the selected engine. TURNS shows how often an engine receives an accepted turn.
    COMPACTION shows who makes the view smaller. The command creates each engine once, in a
    temporary home.
    """
    if ctx.invoked_subcommand is None:
        asyncio.run(_list(ctx.obj, Path().absolute(), as_json=as_json))


@command.command(
    "check",
    epilog=examples(
        "treadle engines check retrieval", "treadle engines check my_engine:engine --json"
    ),
)
@click.argument("engine", metavar="ID|MODULE:NAME")
@as_json
@click.pass_obj
def check(home: Home, engine: str, as_json: bool) -> int:
    """Create one engine and report every problem.

    MODULE:NAME names a factory; the module can be in the current directory. The exit code is
    1 when the engine cannot be used.
    """
    state = asyncio.run(_check_engine(home, engine, Path().absolute()))
    if as_json:
        say_json(state)
    elif state.state == "ok":
        say(_ok_text(state))
    else:
        click.echo("\n".join(map(printable, _problem_lines(state))), err=True)
    return 0 if state.state == "ok" else 1


async def _list(home: Home, here: Path, *, as_json: bool) -> None:
    settings, registry = _settings(home, here), EngineRegistry(timeout=INSPECT_SECONDS)
    async with home.store() as store:
        states = await engine_states(registry, settings, home.path, here, store)
    conflicts = registry.conflicts()
    if as_json:
        told = list(map(str, conflicts))
        say_json(
            {"selected": canonical_name(settings.engine), "engines": states, "conflicts": told}
        )
    else:
        _print(states, conflicts)


def _print(states: Sequence[EngineState], conflicts: Sequence[EngineConflict]) -> None:
    table(_COLUMNS, [_row(state) for state in states])
    contested = {state.id for state in states if state.state == "conflict"}
    remarks = [f"{state.id}: {remark}" for state in states for remark in _remarks(state)]
    remarks += [str(conflict) for conflict in conflicts if conflict.engine not in contested]
    if remarks:
        say("\nwhat to know:")
    for remark in remarks:
        say(f"  {remark}")


async def _check_engine(home: Home, engine: str, here: Path) -> EngineState:
    registry = EngineRegistry(timeout=INSPECT_SECONDS)
    if ":" in engine:
        sys.path.append(str(here))  # last, so that it stands for nothing that is installed
        return await inspect_factory(registry, engine, here)
    tables = _settings(home, here).engines
    return await inspect_engine(registry, engine, tables.get(canonical_name(engine), {}), here)


def _settings(home: Home, here: Path) -> Settings:
    return load_config(home.path, here, os.environ).settings


def _row(state: EngineState) -> list[str]:
    return [
        f"{state.id}*" if state.selected else state.id,
        state.state,
        state.version or "-",
        state.owner or "-",
        state.guarantee or "-",
        state.compaction or "-",
        state.maintenance or "-",
        " ".join(state.powers) or "-",
    ]


def _remarks(state: EngineState) -> Iterator[str]:
    if state.problem is not None:
        yield f"{state.problem}; {state.remedy}"
    yield from (need.unmet for need in state.needs if need.unmet is not None)
    failure = state.last_failure
    told = state.problem is not None and failure is not None and failure.operation == "resolve"
    if failure is not None and not told:
        often = f", {failure.count} times in a row" if failure.count > 1 else ""
        yield f"failed last at {failure.operation} ({iso(failure.time)}{often}): {failure.reason}"
    if state.waiting:
        yield _queue(state.waiting)


def _queue(waiting: tuple[WaitingTurn, ...]) -> str:
    blocked = sum(turn.state == "blocked" for turn in waiting)
    attempts = max(turn.attempts for turn in waiting)
    errors = [turn.error for turn in waiting if turn.error]
    count = "1 turn waits" if len(waiting) == 1 else f"{len(waiting)} turns wait"
    said = f"{count} for it, {blocked} blocked"
    often = "once" if attempts == 1 else f"{attempts} times"
    return f"{said}; tried {often}, last: {errors[-1]}" if errors else said


def _ok_text(state: EngineState) -> str:
    version = f" {state.version}" if state.version else ""
    lines = [f"{state.name}{version} is valid; {state.promise}"]
    lines += [f"powers: {' '.join(state.powers)}"] if state.powers else []
    lines += [need.unmet for need in state.needs if need.unmet is not None]
    return "\n".join(lines)


def _problem_lines(state: EngineState) -> Iterator[str]:
    if state.defects:
        yield f"treadle: context engine {state.id!r} is not valid:"
        yield from (f"  {defect}" for defect in state.defects)
    else:
        yield f"treadle: {state.problem}; {state.remedy}"
