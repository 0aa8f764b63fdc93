"""The tables of MCP servers in the user's `config.toml`.

Owns adding and removing one. Invariant: everything else in the file stays as it is, and a
file that would not be valid is not written.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ...config.config_file import ConfigFile, key_lines
from ...config.mcp_settings import McpServerSettings
from ...config.validation import key_text, valid_values
from ...core.errors import ConfigError, NotFound
from ...core.files import replace_file
from ..settings_file import toml_string

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
    text = (file.text.rstrip("\n") + "\n\n") if file and file.text.strip() else ""
    table = msgspec.to_builtins(settings)
    text += "\n".join(_table_lines((*_SECTION, name), table)) + "\n"
    _write(path, text)
    return path


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
    _write(path, text.rstrip("\n") + "\n" if text.strip() else "")
    return path


def _write(path: Path, text: str) -> None:
    table = tomllib.loads(text)
    dict(valid_values(table, lambda _: str(path)))
    replace_file(path, text.encode())


def _owners(lines: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield the table that each line belongs to."""
    owner: tuple[str, ...] = ()
    for line in lines:
        if line.lstrip().startswith("[") and (keys := key_lines(line)):
            owner = max(keys, key=len)
        yield owner


def _table_lines(key: tuple[str, ...], table: dict[str, Any]) -> Iterator[str]:
    """Yield a table and those inside it as TOML; tables of plain strings stand on one line."""
    inner = {name: value for name, value in table.items() if _is_table_of_tables(value)}
    yield f"[{key_text(key)}]"
    for name, value in table.items():
        if name not in inner and value != {}:
            yield f"{key_text((name,))} = {_value(value)}"
    for name, value in inner.items():
        for below, each in value.items():
            if isinstance(each, dict):
                yield ""
                yield from _table_lines((*key, name, below), each)


def _is_table_of_tables(value: object) -> bool:
    return isinstance(value, dict) and any(isinstance(each, dict) for each in value.values())


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key_text((k,))} = {_value(v)}" for k, v in value.items()) + " }"
    return toml_string(str(value))
