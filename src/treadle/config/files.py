"""Configuration files: reading TOML, and finding the line a value stands on.

Invariant: lines are looked for only when somebody wants to know; a file is read once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from ..core.errors import ConfigError
from ..core.files import read_bounded
from ..core.former_name import PROJECT_DIRECTORY
from .check import Key

__all__ = ["DEEPEST", "MOST_BYTES", "ConfigFile", "project_file"]

MOST_BYTES = 1 << 20
"""The largest file that is read."""

DEEPEST = 32
"""Tables and lists within each other."""


class ConfigFile(Struct, frozen=True):
    """A file and what it says."""

    path: Path
    text: str
    table: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> ConfigFile | None:
        """The file; None when there is none. Raises `ConfigError`."""
        try:
            text = read_bounded(path, MOST_BYTES).decode()
            table = _parsed(text)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ConfigError(f"cannot read {str(path)!r}: {error.strerror}; check it") from error
        except RecursionError:
            raise _too_deep(path) from None
        except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
            raise ConfigError(f"{path} is not valid TOML: {error}; correct or remove it") from error
        if _depth(table) > DEEPEST:
            raise _too_deep(path)
        return cls(path, text, table)

    def locate(self, key: Key) -> str:
        """The file and the line on which `key` is said."""
        from .lines import lines_of

        line = lines_of(self.text).get(key)
        return f"{self.path}:{line}" if line else str(self.path)


def _parsed(text: str) -> dict[str, Any]:
    import tomllib  # only where there is a file

    return tomllib.loads(text)


def project_file(cwd: Path, root_marker: str = ".git") -> Path | None:
    """The configuration of the project around `cwd`: the nearest, not above its root."""
    line = [cwd, *cwd.parents]
    depth = next((i for i, place in enumerate(line) if (place / root_marker).exists()), 0)
    candidates = (
        place / name / "config.toml"
        for place in line[: depth + 1]
        for name in (".treadle", PROJECT_DIRECTORY)
    )
    return next((path for path in candidates if path.is_file()), None)


def _too_deep(path: Path) -> ConfigError:
    return ConfigError(f"{path} nests more than {DEEPEST} tables and lists; flatten it")


def _depth(table: Any) -> int:
    """How many tables and lists lie within each other; one more than allowed at most."""
    level, depth = [table], 0
    while level and depth <= DEEPEST:
        inner = (value.values() if isinstance(value, dict) else value for value in level)
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        depth += 1
    return depth
