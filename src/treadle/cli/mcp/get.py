"""`treadle mcp get`: show one MCP server."""

from __future__ import annotations

import json

import click
import msgspec

from ...config.mcp_settings import McpServerSettings
from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..output import printable, say, say_json
from .known_servers import find_server, view_server

__all__ = ["command"]

_IN_VIEW = ("command", "args", "url", "enabled", "required", "trusted", "approval")
_MAY_HOLD_SECRETS = ("env", "headers")


@click.command("get", epilog=examples("treadle mcp get docs"))
@click.argument("name", metavar="SERVER")
@as_json
@click.pass_obj
def command(home: Home, name: str, as_json: bool) -> None:
    """Show one server, and which of its settings are not as usual.

    Of variables and headers only the names are shown.
    """
    server = find_server(home, name)
    view, settings = view_server(server, home.path), _unusual(server.settings)
    shown = msgspec.structs.asdict(view)
    if as_json:
        say_json({**shown, "settings": settings})
        return
    for key, value in shown.items():
        text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
        if value is None:
            text = f"not known; `treadle mcp test {name}` asks it"
        say(f"{key:14} {printable(text)}".rstrip())
    for key, value in settings.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        say(f"{key:14} {printable(text)}")


def _unusual(settings: McpServerSettings) -> dict[str, object]:
    """Return the settings that are not in a view and differ from the defaults."""
    told: dict[str, object] = msgspec.to_builtins(settings)
    kept = {key: value for key, value in told.items() if key not in _IN_VIEW}
    for key in _MAY_HOLD_SECRETS:
        if key in kept:
            kept[key] = sorted(getattr(settings, key))
    return kept
