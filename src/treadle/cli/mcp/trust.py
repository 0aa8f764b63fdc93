"""`treadle mcp trust`: let servers of a project's `.mcp.json` count."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from ...config.trusted_files import TrustStore
from ...core.errors import NotFound
from ...mcp.server_files import FoundServer, find_project_servers
from ...mcp.server_settings import shows_secret
from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..output import one_line, say, say_json

__all__ = ["command"]

_LONGEST = 2_000


@click.command(
    "trust",
    epilog=examples("treadle mcp trust --show", "treadle mcp trust docs"),
)
@click.argument("names", metavar="[SERVER]…", nargs=-1)
@click.option("--show", is_flag=True, help="Print what is trusted, and change nothing.")
@as_json
@click.pass_obj
def command(home: Home, names: tuple[str, ...], show: bool, as_json: bool) -> None:
    """Trust servers of the `.mcp.json` of this project, as they are now; without names all.

    A server that is a command runs outside the sandbox, with your rights. When its entry
    or a program of the project that it names changes, you must trust it again. What such a
    program loads from the project is not compared.
    """
    found = find_project_servers(Path().absolute())
    if not found:
        raise NotFound("file with MCP servers", ".mcp.json", "this project has none")
    known = {each.name for each in found}
    if missing := next((name for name in names if name not in known), None):
        raise NotFound("MCP server", missing, f"{found[0].file} has {', '.join(sorted(known))}")
    trust = TrustStore(home.path)
    for each in found:
        if not show and not each.problem and (not names or each.name in names):
            trust.trust_hook(each.file, each.trust_name, each.digest)
    rows = [
        {
            "name": each.name,
            "place": each.server.place,
            "trusted": trust.is_hook_trusted(each.file, each.trust_name, each.digest),
            "outside_sandbox": each.server.is_local,
            "variables": sorted(each.settings.env),
            "programs": [program.path for program in each.programs or ()],
            "problem": each.problem or None,
        }
        for each in found
    ]
    if as_json:
        say_json({"file": str(found[0].file), "servers": rows})
        return
    for each, row in zip(found, rows, strict=True):
        state = "trusted" if row["trusted"] else "not trusted"
        where = "runs outside the sandbox: " if each.server.is_local else ""
        line = each.problem or f"{where}{_variables(each)}{each.server.place}"
        say(one_line(f"{each.name}: {state}; {line}", _LONGEST))
        for program in each.programs or ():
            say(one_line(f"  read it: {program.path}", _LONGEST))


def _variables(found: FoundServer) -> str:
    """Return the variables of a command as a shell would set them: they decide what it does."""
    shown = (
        f"{name}={'…' if shows_secret(name, text) else shlex.quote(text)} "
        for name, text in found.settings.env.items()
    )
    return "".join(shown)
