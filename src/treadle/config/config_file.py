"""Configuration files: reading TOML, and finding the line of a value.

Invariants: a file is read once; lines are looked for only when a message needs one, and
finding them costs no more than reading the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..core.errors import ConfigError
from ..core.files import read_bounded
from ..core.former_name import PROJECT_DIRECTORY
from .validation import Key

__all__ = [
    "DEEPEST",
    "LONGEST_STATEMENT",
    "MOST_BYTES",
    "ConfigFile",
    "find_project_file",
    "key_lines",
]

MOST_BYTES = 1 << 20
"""The largest file that is read."""

DEEPEST = 32
"""How deep tables and lists may be nested."""

LONGEST_STATEMENT = 200
"""Lines of one statement; after a longer one, lines are not found."""


class ConfigFile(Struct, frozen=True):
    """A file and its contents."""

    path: Path
    text: str
    table: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> ConfigFile | None:
        """Read the file; return None when there is none. Raises `ConfigError`."""
        try:
            text = read_bounded(path, MOST_BYTES).decode()
            table = _parse_toml(text)
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
        """Return the file and the line of `key`."""
        line = key_lines(self.text).get(key)
        return f"{self.path}:{line}" if line else str(self.path)


def find_project_file(cwd: Path, root_marker: str = ".git") -> Path | None:
    """Return the configuration of the project around `cwd`: the nearest, not above its root."""
    line = [cwd, *cwd.parents]
    depth = next((i for i, place in enumerate(line) if (place / root_marker).exists()), 0)
    candidates = (
        place / name / "config.toml"
        for place in line[: depth + 1]
        for name in (".treadle", PROJECT_DIRECTORY)
    )
    return next((path for path in candidates if path.is_file()), None)


@lru_cache(maxsize=8)
def key_lines(text: str) -> dict[Key, int]:
    """Return the first line of each key of a valid file, tables included."""
    found: dict[Key, int] = {}
    header: Key = ()
    for number, statement, table in _statements(text):
        is_header = statement.lstrip().startswith("[")
        above = () if is_header else header
        keys = [(*above, *key) for key in _keys(table)]
        for key in keys:
            found.setdefault(key, number)
        if is_header:
            header = max(keys, key=len, default=())
    return found


def _statements(text: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield each statement with its first line and its table by itself."""
    lines = text.split("\n")
    start = 0
    for number in range(1, len(lines) + 1):
        if number - start > LONGEST_STATEMENT:
            return
        statement = "\n".join(lines[start:number])
        try:
            table = _parse_toml(statement)
        except ValueError:
            continue
        yield start + 1, statement, table
        start = number


def _keys(table: dict[str, Any]) -> Iterator[Key]:
    waiting: list[tuple[Key, Any]] = [((), table)]
    while waiting:
        above, value = waiting.pop()
        if above:
            yield above
        if isinstance(value, dict):
            waiting += (((*above, name), inner) for name, inner in value.items())


def _parse_toml(text: str) -> dict[str, Any]:
    import tomllib  # only where there is a file

    return tomllib.loads(text)


def _too_deep(path: Path) -> ConfigError:
    return ConfigError(f"{path} nests more than {DEEPEST} tables and lists; flatten it")


def _depth(table: Any) -> int:
    """Return how deep tables and lists are nested; at most one more than allowed."""
    level, depth = [table], 0
    while level and depth <= DEEPEST:
        inner = (value.values() if isinstance(value, dict) else value for value in level)
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        depth += 1
    return depth
