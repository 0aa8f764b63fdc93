"""Configuration files: reading TOML, and finding the line a value stands on.

Invariant: lines are looked for only when somebody wants to know; a file is read once.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .check import Key

__all__ = ["ConfigFile", "project_file"]


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file and what it says."""

    path: Path
    text: str
    table: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> ConfigFile | None:
        """The file; None when there is none. Raises `ConfigError`."""
        try:
            text = path.read_bytes().decode()
            return cls(path, text, tomllib.loads(text))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ConfigError(f"cannot read {str(path)!r}: {error.strerror}; check it") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not valid TOML: {error}; correct or remove it") from error

    def locate(self, key: Key) -> str:
        """The file and the line on which `key` is said."""
        line = self._line(key)
        return f"{self.path}:{line}" if line else str(self.path)

    def _line(self, key: Key) -> int | None:
        """The beginning of the first statement after which the file holds `key`."""
        lines = self.text.splitlines(keepends=True)
        began = 1
        for number in range(1, len(lines) + 1):
            try:
                table = tomllib.loads("".join(lines[:number]))
            except tomllib.TOMLDecodeError:
                continue
            if _holds(table, key):
                return _statement(lines, began)
            began = number + 1
        return None


def project_file(cwd: Path, root_marker: str = ".git") -> Path | None:
    """The configuration of the project around `cwd`: the nearest, not above its root."""
    line = [cwd, *cwd.parents]
    depth = next((i for i, place in enumerate(line) if (place / root_marker).exists()), 0)
    candidates = (place / ".weft" / "config.toml" for place in line[: depth + 1])
    return next((path for path in candidates if path.is_file()), None)


def _holds(table: Any, key: Key) -> bool:
    for name in key:
        if not isinstance(table, dict) or name not in table:
            return False
        table = table[name]
    return True


def _statement(lines: list[str], began: int) -> int:
    while lines[began - 1].lstrip().startswith("#") or not lines[began - 1].strip():
        began += 1
    return began
