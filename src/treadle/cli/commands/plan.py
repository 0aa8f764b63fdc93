"""`treadle plan`: show the decisions for the next turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from ...core.specs import spec_name
from ...policy.transport import Params
from ...policy.turn_plan import TurnPlan
from ..cli_home import Home
from ..command_options import as_json, runs, text_argument
from ..dry_run import open_dry_run
from ..lazy_group import examples
from ..output import Column, say_json, table
from ..run_options import take_run_options, with_run_options
from ..terminal_input import is_attended
from ..thread_setup import prepare, warn_of_project

__all__ = ["command", "rows"]

_COLUMNS = (Column("DOMAIN"), Column("WHAT"), Column("DECIDED", gives=True))
_NONE = "none"


@click.command(
    "plan",
    epilog=examples(
        'treadle plan "fix the bug"',
        "treadle plan --model anthropic:claude-opus-5 --fallback openai:gpt-5.5",
        "treadle plan --thread last --harness codex --json",
    ),
)
@text_argument
@click.option("--thread", "name", metavar="THREAD", help="The thread that the turn would continue.")
@with_run_options
@as_json
@runs
async def command(
    home: Home, *, text: str | None, name: str | None, as_json: bool, **asked: Any
) -> None:
    """Show the decisions that `treadle exec` would make for this turn.

    Nothing is sent, created or changed. The table shows every decision by domain: model and
    address, harness and reason, credential profile and the next ones, tools, hooks, prompt
    overlays, transcript repairs, parameters, fallback models, channels. A missing key is
    reported, but it is not an error. TEXT does not change the plan. --json prints the whole
    plan, without secrets.
    """
    del text
    setup = await prepare(home, take_run_options(asked), name, attended=is_attended())
    warn_of_project(setup)
    async with open_dry_run(setup) as thread:
        plan = await thread.foresee()
    if as_json:
        say_json(plan.to_builtins())
    else:
        table(_COLUMNS, [list(row) for row in rows(plan)])


_LOGINS = {
    "native": "the harness keeps its own login",
    "api-key": "the harness is given the key",
    "profile": "the harness signs in with the subscription's tokens",
}


def rows(plan: TurnPlan) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of the table: domain (only in its first row), subject, decision."""
    for domain, lines in _domains(plan).items():
        for number, (what, decided) in enumerate(lines):
            yield "" if number else domain, what, decided


def _domains(plan: TurnPlan) -> dict[str, list[tuple[str, str]]]:
    return {
        "route": _route(plan),
        "auth": _auth(plan),
        "tools": _tools(plan),
        "hooks": [("events", _join_names(plan.hooks))],
        "prompt": _prompt(plan),
        "transcript": [("repairs", _join_names(plan.transcript))],
        "params": _params(plan),
        "outcome": _outcome(plan),
        "delivery": _delivery(plan),
    }


def _route(plan: TurnPlan) -> list[tuple[str, str]]:
    target, harness = plan.target, plan.harness
    address = "the provider's own address" if target.native else "another address"
    return [
        ("model", f"{target.provider}:{target.model}"),
        ("api", f"{target.api} at {address}, by {plan.transport}"),
        ("harness", f"{harness.id} ({harness.reason})"),
    ]


def _auth(plan: TurnPlan) -> list[tuple[str, str]]:
    auth = plan.auth
    if auth.missing:
        return [("profile", auth.missing)]
    if not auth.profile:
        return [("profile", "none is needed")]
    chosen = "you chose it" if auth.source == "user" else "first in order"
    login = [("login", _LOGINS[auth.login])] if auth.login else []
    return [
        ("profile", f"{auth.profile} ({chosen})"),
        *login,
        ("then", _join_names(auth.others)),
    ]


def _tools(plan: TurnPlan) -> list[tuple[str, str]]:
    tools = plan.tools
    held = "with strict schemas" if tools.strict else "without strict schemas"
    names = _join_names([spec_name(spec) for spec in tools.specs])
    found = [(each.tool, f"{each.consequence}: {each.message}") for each in tools.diagnostics]
    return [("offered", f"{len(tools.specs)}, {held}"), ("names", names), *found]


def _prompt(plan: TurnPlan) -> list[tuple[str, str]]:
    problems = [("problem", problem) for problem in plan.prompt.problems]
    return [("overlays", _join_names(plan.prompt.sources)), *problems]


def _params(plan: TurnPlan) -> list[tuple[str, str]]:
    said = msgspec.structs.asdict(plan.params)
    # Both values of parallel calls say something.
    usual = msgspec.structs.asdict(Params()) | {"parallel_tool_calls": None}
    shown = [(name, _value_text(value)) for name, value in said.items() if value != usual[name]]
    return [*shown, *((name, "not held: the harness cannot be told it") for name in plan.unheld)]


def _outcome(plan: TurnPlan) -> list[tuple[str, str]]:
    models = plan.outcome.models
    others = () if plan.outcome.strict else models[1:]
    limits = msgspec.structs.asdict(plan.limits).items()
    ends = [("at most", f"{most:g} {name}") for name, most in limits if most is not None]
    return [("asked", models[0]), ("then", _join_names(others)), *ends]


def _delivery(plan: TurnPlan) -> list[tuple[str, str]]:
    outlets = plan.delivery
    return [("channels", _join_names(outlets.channels)), ("silence", outlets.token)]


def _join_names(names: Any) -> str:
    return ", ".join(names) or _NONE


def _value_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
