"""`treadle contracts`: run the contract matrix."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ...core.store_address import check_address
from ...engines.loading import engine_registry
from ...harness.builtin import CODEX
from ...harness.registry import HarnessRegistry
from ...testing.matrix import (
    DOMAINS,
    ContractRow,
    HarnessUnderTest,
    Result,
    harnesses_under_test,
    load_left_out,
    load_rows,
    run_rows,
    thread_defaults,
)
from ...testing.matrix.contract_rows import SHARED
from ...testing.matrix.report import deferred_lines, render_page, summary
from ...testing.matrix.tested_harnesses import why_codex_is_missing
from ..cli_home import Home
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..log_lines import hide_logs
from ..output import Column, say, say_bytes, say_json, table, working

__all__ = ["command"]

_COLUMNS = (
    Column("ROW"),
    Column("DOMAIN"),
    Column("ON"),
    Column("STATUS"),
    Column("WHAT", gives=True),
)
_FAILED = 1


@click.command(
    "contracts",
    epilog=examples(
        "treadle contracts",
        "treadle contracts --domain selection",
        "treadle contracts --harness my_harness:make --json",
        "treadle contracts --harness treadle --engine lossless",
    ),
)
@click.option("--domain", type=click.Choice(DOMAINS), help="Only the rows of this domain.")
@click.option(
    "--harness",
    metavar="ID|MODULE:NAME",
    help="Only the rows of this harness: shared, treadle, codex, an installed one, a factory.",
)
@click.option(
    "--engine",
    metavar="ID|MODULE:NAME",
    help="Use this context engine in rows that do not set one.",
)
@click.option(
    "--model",
    metavar="MODEL|MODULE:NAME",
    help="Use this model, in its provider's format, in rows that do not test the format.",
)
@click.option("--page", "as_page", is_flag=True, help="Print the documentation page instead.")
@as_json
@runs
async def command(
    home: Home,
    *,
    domain: str | None,
    harness: str | None,
    engine: str | None,
    model: str | None,
    as_page: bool,
    as_json: bool,
) -> int:
    """Run the contract matrix: every promise about policy, on every harness.

    The rows use only the loopback interface and temporary homes. The exit code is 1 when a
    row failed. MODULE:NAME names a factory; the module can be in the current directory. With
    `treadle --store postgresql://…` threads live in that database, which should have no others.
    """
    if as_page:
        say_bytes(render_page(load_rows(), load_left_out()).encode())
        return 0
    _look_here()
    await _check_names(harness, engine)
    hide_logs()  # rows let hooks, tools and providers fail
    rows = [row for row in load_rows() if domain in (None, row.domain)]
    # Only a database that is named for this run: rows fill it with threads of theirs.
    store = check_address(home.given_store) if home.given_store else None
    defaults = thread_defaults(engine, model, store)
    harnesses = await _runnable(rows, harnesses_under_test(harness, defaults), asked=harness)
    results = await _run_rows(rows, harnesses)
    if as_json:
        say_json({"rows": results})
    else:
        _print(results)
    return _FAILED if any(each.status == "failed" for each in results) else 0


async def _check_names(harness: str | None, engine: str | None) -> None:
    """Raise for a harness or an engine that is not installed: every row of it would fail."""
    if harness is not None and harness != SHARED and ":" not in harness:
        registry = HarnessRegistry()
        await registry.load()
        registry.find(harness)
    if engine is not None and ":" not in engine:
        await engine_registry().check_name(engine)


def _look_here() -> None:
    """Make modules in this directory importable; last, so that they replace no installed one."""
    sys.path.append(str(Path().absolute()))


async def _runnable(
    rows: Sequence[ContractRow], harnesses: Sequence[HarnessUnderTest], *, asked: str | None
) -> list[HarnessUnderTest]:
    """Return the harnesses that have rows; Codex, unless asked for, only if it is installed."""
    chosen = [each for each in harnesses if any(map(each.can_run, rows))]
    if asked is not None or all(each.name != CODEX for each in chosen):
        return chosen
    if (missing := await why_codex_is_missing()) is None:
        return chosen
    click.echo(f"treadle: the rows on {CODEX} are not run: {missing}", err=True)
    return [each for each in chosen if each.name != CODEX]


async def _run_rows(
    rows: Sequence[ContractRow], harnesses: Sequence[HarnessUnderTest]
) -> list[Result]:
    """Run the rows, and print the progress on standard error."""
    count = sum(each.can_run(row) for each in harnesses for row in rows)
    results: list[Result] = []
    place = ("", "")
    with working(f"{count} rows to run", steps=True) as report:
        async for result in run_rows(rows, harnesses):
            results.append(result)
            if (result.harness, result.domain) != place or sys.stderr.isatty():
                place = (result.harness, result.domain)
                report(f"{len(results)} of {count}: {result.domain} on {result.harness}")
    return results


def _print(results: Sequence[Result]) -> None:
    table(_COLUMNS, [_row(result) for result in results])
    say("")
    for result in results:
        if result.status == "failed":
            say(f"{result.id} on {result.harness} failed: {result.reason}")
    if waiting := deferred_lines(results):
        say(waiting)
    say(summary(results))


def _row(result: Result) -> list[str]:
    return [result.id, result.domain, result.harness, result.status, result.title]
