"""Writing settings into the user's `config.toml`.

Owns how a plain value is put there. Invariant: everything else in the file stays as it is,
and a file that would not be valid is not written.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from ..config.config_file import ConfigFile, key_lines
from ..core.errors import ConfigError
from ..core.files import replace_file

__all__ = ["toml_string", "write_settings"]

_TABLE = r"[ \t]*\["


def write_settings(home: Path, values: Mapping[str, str]) -> Path:
    """Set plain keys in `config.toml` of `home`. Raises `ConfigError`."""
    path = home / "config.toml"
    file = ConfigFile.read(path)
    text = _with_values(file.text if file else "", values)
    try:
        tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(
            f"{path} cannot be changed automatically; set {', '.join(values)} there by hand"
        ) from error
    replace_file(path, text.encode())
    return path


def _with_values(text: str, values: Mapping[str, str]) -> str:
    known, lines = key_lines(text), text.split("\n")
    added: list[str] = []
    for key, value in values.items():
        line = f"{key} = {toml_string(value)}"
        if (key,) in known:
            lines[known[key,] - 1] = line
        else:
            added.append(line)
    # What follows a table's heading would belong to the table.
    first = next((at for at, line in enumerate(lines) if re.match(_TABLE, line)), None)
    at = len(lines) - (lines[-1] == "") if first is None else first
    lines[at:at] = added
    return "\n".join(lines).rstrip("\n") + "\n"


def toml_string(text: str) -> str:
    """Return `text` as a TOML string on one line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    plain = "".join(c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}" for c in escaped)
    return f'"{plain}"'
