"""`treadle agents`: the kinds of agents that files define."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ...config.trusted_files import TrustStore
from ...core.choices import near_hint
from ...core.errors import NotFound
from ...subagents.agent_files import find_agent_files
from ..cli_home import Home
from ..command_options import as_json, cwd_option
from ..lazy_group import examples
from ..output import Column, say, say_json, table

if TYPE_CHECKING:
    from ...subagents.agent_files import AgentFile

__all__ = ["command"]

_COLUMNS = (
    Column("NAME"),
    Column("FROM", spare=1),
    Column("STATE"),
    Column("DESCRIPTION", gives=True),
)


@click.group(
    "agents",
    invoke_without_command=True,
    epilog=examples("treadle agents", "treadle agents show reviewer"),
)
@cwd_option
@as_json
@click.pass_context
def command(ctx: click.Context, cwd: Path | None, as_json: bool) -> None:
    """List the kinds of agents that files define.

    Yours are in `agents/` of the home, those of a project in `.treadle/agents/` or
    `.claude/agents/`; the model is told of the latter once `treadle trust` trusts them. In a
    chat, `/agents NAME TASK` starts one.
    """
    if ctx.invoked_subcommand is None:
        _list(ctx.obj, cwd, as_json)


@command.command("list", epilog=examples("treadle agents list --json"))
@cwd_option
@as_json
@click.pass_obj
def list_(home: Home, cwd: Path | None, as_json: bool) -> None:
    """List the kinds of agents, and which of them may be used."""
    _list(home, cwd, as_json)


@command.command("show", epilog=examples("treadle agents show reviewer"))
@click.argument("name")
@cwd_option
@as_json
@click.pass_obj
def show(home: Home, name: str, cwd: Path | None, as_json: bool) -> None:
    """Print what a kind of agents is and may do, and its instructions."""
    found = {each.name: each for each in _find(home, cwd)}
    if name not in found:
        hint = near_hint(name, found) or "`treadle agents` lists them; "
        raise NotFound("kind of agents", name, f"{hint}write agents/{name}.md in the home")
    file, trust = found[name], TrustStore(home.path)
    if as_json:
        say_json(_json(file, trust))
        return
    say(f"{file.name} ({file.of.source}, {_state(file, trust)}): {file.of.file}")
    if (told := file.definition) is None:
        return
    facts = {
        "description": told.description,
        "model": told.model or "that of its parent",
        "effort": told.effort or "that of its parent",
        "tools": "those of its parent" if told.tools is None else ", ".join(told.tools),
        "without": ", ".join(told.without),
        "sandbox": f"at most {told.sandbox}" if told.sandbox else "that of its parent",
        "network": "that of its parent" if told.network else "none",
        "mode": told.mode,
        "worktree": "one of its own" if told.worktree else "",
    }
    for fact, value in facts.items():
        if value:
            say(f"{fact:<12} {value}")
    say(f"\n{told.instructions}" if told.instructions else "\nno instructions of its own")


def _list(home: Home, cwd: Path | None, as_json: bool) -> None:
    found, trust = _find(home, cwd), TrustStore(home.path)
    if as_json:
        say_json([_json(each, trust) for each in found])
        return
    if not found:
        say("no files define agents; write agents/NAME.md in the home, or .treadle/agents/NAME.md")
        return
    rows = [(each.name, each.of.source, _state(each, trust), _description(each)) for each in found]
    table(_COLUMNS, rows)


def _find(home: Home, cwd: Path | None) -> tuple[AgentFile, ...]:
    return find_agent_files(home.path, (cwd or Path()).absolute())


def _state(file: AgentFile, trust: TrustStore) -> str:
    if file.problem:
        return "wrong"
    return "ready" if file.is_trusted(trust) else "not trusted"


def _description(file: AgentFile) -> str:
    if file.definition is None:
        return f"{file.of.file}: {file.problem}"
    return file.definition.description


def _json(file: AgentFile, trust: TrustStore) -> dict[str, Any]:
    told = file.definition
    return {
        "name": file.name,
        "file": str(file.of.file),
        "source": file.of.source,
        "state": _state(file, trust),
        "problem": file.problem or None,
        "definition": None if told is None else msgspec.structs.asdict(told),
    }
