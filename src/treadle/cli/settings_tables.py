"""Tables in the user's `config.toml`: how one is put there.

Owns the text of a table. Invariant: everything else in the file stays as it is, and a file that
would not be valid is not written.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..config.config_file import ConfigFile
from ..config.validation import key_text, valid_values
from ..core.files import replace_file
from .settings_file import toml_string

__all__ = ["append_table", "write_valid"]


def append_table(home: Path, key: tuple[str, ...], table: dict[str, Any]) -> Path:
    """Write a table behind what the file has, and return the file. Raises `ConfigError`."""
    path = home / "config.toml"
    file = ConfigFile.read(path)
    text = (file.text.rstrip("\n") + "\n\n") if file and file.text.strip() else ""
    write_valid(path, text + "\n".join(_table_lines(key, table)) + "\n")
    return path


def write_valid(path: Path, text: str) -> None:
    """Replace the file, if `text` is one that would be read. Raises `ConfigError`."""
    table = tomllib.loads(text)
    dict(valid_values(table, lambda _: str(path)))
    replace_file(path, text.encode())


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
