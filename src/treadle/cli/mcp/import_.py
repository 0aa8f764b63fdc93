"""`treadle mcp import`: take over the MCP servers of Codex, of Claude, or of a file."""

from __future__ import annotations

import os
from pathlib import Path

import click
from msgspec import Struct

from ...core.errors import ConfigError, NotFound
from ...mcp.server_files import (
    FoundServer,
    read_claude,
    read_codex,
    read_json,
    without_secrets,
)
from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..output import one_line, say, say_json
from .server_tables import add_server

__all__ = ["command"]


class _Taken(Struct, frozen=True):
    name: str
    problem: str | None
    variables: tuple[str, ...]


@click.command(
    "import",
    epilog=examples(
        "treadle mcp import codex", "treadle mcp import claude", "treadle mcp import ./servers.json"
    ),
)
@click.argument("source", metavar="codex|claude|FILE")
@as_json
@click.pass_obj
def command(home: Home, source: str, as_json: bool) -> None:
    """Copy MCP servers into your `config.toml`.

    `codex` reads its `config.toml`, `claude` the servers in `~/.claude.json` that count everywhere
    and those that count in this directory. Secrets are not copied: a variable stands in their
    place, and the output names it.
    """
    rows = [_take(home, found) for found in _read(source)]
    if as_json:
        say_json({"servers": rows})
        return
    if not rows:
        say("no MCP servers there")
    for row in rows:
        say(one_line(f"{row.name}: {row.problem or 'added'}", 400))
        for variable in row.variables:
            say(f"  set the variable {variable}: its value was not copied")


def _read(source: str) -> tuple[FoundServer, ...]:
    user = Path(os.environ.get("HOME", "~")).expanduser()
    if source == "codex":
        place = Path(os.environ.get("CODEX_HOME") or user / ".codex") / "config.toml"
        return read_codex(_existing(place, source))
    if source == "claude":
        return read_claude(_existing(user / ".claude.json", source), Path().absolute())
    file = _existing(Path(source).absolute(), source)
    return read_codex(file) if file.suffix == ".toml" else read_json(file)


def _existing(file: Path, source: str) -> Path:
    if not file.is_file():
        raise NotFound("file with MCP servers", str(file), f"{source!r} has none here")
    return file


def _take(home: Home, found: FoundServer) -> _Taken:
    problem, variables = found.problem, tuple[str, ...]()
    if not problem:
        settings, variables = without_secrets(found)
        try:
            add_server(home.path, found.name, settings)
        except ConfigError as error:
            problem, variables = str(error), ()
    return _Taken(found.name, problem or None, variables)
