"""The tables of MCP servers in the user's `config.toml`.

Owns adding and removing one. Invariant: everything else in the file stays as it is, and a
file that would not be valid is not written.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ...config.config_file import ConfigFile, key_lines
from ...config.mcp_settings import McpServerSettings
from ...core.errors import ConfigError, NotFound
from ..settings_tables import append_table, write_valid

__all__ = ["add_server", "remove_server"]

_SECTION = ("mcp", "servers")


def add_server(home: Path, name: str, settings: McpServerSettings) -> Path:
    """Write the table of a server. Raises `ConfigError` where there is one already."""
    path = home / "config.toml"
    file = ConfigFile.read(path)
    if file is not None and name in file.table.get("mcp", {}).get("servers", {}):
        raise ConfigError(
            f"{path} has an MCP server {name!r} already; `treadle mcp remove {name}` removes it"
        )
    return append_table(home, (*_SECTION, name), msgspec.to_builtins(settings))


def remove_server(home: Path, name: str) -> Path:
    """Remove the table of a server, with those inside it. Raises `NotFound`."""
    path = home / "config.toml"
    file = ConfigFile.read(path)
    known = (file.table.get("mcp", {}).get("servers", {}) if file else {}) or {}
    if file is None or name not in known:
        raise NotFound("MCP server", name, f"{path} has none; `treadle mcp list` shows where it is")
    lines = file.text.split("\n")
    kept = [
        line for line, of in zip(lines, _owners(lines), strict=True) if of[:3] != (*_SECTION, name)
    ]
    text = "\n".join(kept)
    left = tomllib.loads(text).get("mcp", {}).get("servers", {})
    if name in left:
        raise ConfigError(f"{path} cannot be changed automatically; remove {name!r} there by hand")
    write_valid(path, text.rstrip("\n") + "\n" if text.strip() else "")
    return path


def _owners(lines: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield the table that each line belongs to."""
    owner: tuple[str, ...] = ()
    for line in lines:
        if line.lstrip().startswith("[") and (keys := key_lines(line)):
            owner = max(keys, key=len)
        yield owner
