"""Lines: where in a TOML file each key is said.

Invariant: every statement is read once, so that finding lines costs what the file costs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from .check import Key

__all__ = ["LONGEST_STATEMENT", "lines_of"]

LONGEST_STATEMENT = 200
"""Lines of one statement; where a longer one ends is not looked for, nor what follows it."""


@lru_cache(maxsize=8)
def lines_of(text: str) -> dict[Key, int]:
    """The first line on which each key of a valid file is said, tables included."""
    found: dict[Key, int] = {}
    header: Key = ()
    for number, statement, table in _statements(text):
        opens = statement.lstrip().startswith("[")
        above = () if opens else header
        said = [(*above, *key) for key in _keys(table)]
        for key in said:
            found.setdefault(key, number)
        if opens:
            header = max(said, key=len, default=())
    return found


def _statements(text: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Each statement with the line it begins on and what it says by itself."""
    lines = text.split("\n")
    began = 0
    for number in range(1, len(lines) + 1):
        if number - began > LONGEST_STATEMENT:
            return
        statement = "\n".join(lines[began:number])
        try:
            table = tomllib.loads(statement)
        except ValueError:
            continue
        yield began + 1, statement, table
        began = number


def _keys(table: dict[str, Any]) -> Iterator[Key]:
    waiting: list[tuple[Key, Any]] = [((), table)]
    while waiting:
        above, value = waiting.pop()
        if above:
            yield above
        if isinstance(value, dict):
            waiting += (((*above, name), held) for name, held in value.items())
