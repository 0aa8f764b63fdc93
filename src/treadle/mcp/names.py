"""Names: how the model calls the tools of servers.

Owns the way from a server and its tool to one function name. Invariants: a name is valid for
every API; two tools never have the same one; names depend on the tools alone, not on their order.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

__all__ = ["LONGEST_NAME", "PREFIX", "full_names"]

PREFIX = "mcp__"

LONGEST_NAME = 64
"""Characters of a function's name that every API takes."""

_DIGITS = 12


def full_names(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the full name of each tool, by its server and its own name, sorted by these."""
    known = sorted(set(tools))
    plain = {tool: _plain(*tool) for tool in known}
    often = Counter(plain.values())
    return {
        tool: name if often[name] == 1 and len(name) <= LONGEST_NAME else _marked_name(tool, name)
        for tool, name in plain.items()
    }


def _plain(server: str, tool: str) -> str:
    return f"{PREFIX}{_part(server)}__{_part(tool)}"


def _part(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", text)


def _marked_name(tool: tuple[str, str], name: str) -> str:
    """Return a name with a digest of what it stands for."""
    digest = hashlib.sha1("\0".join(tool).encode(), usedforsecurity=False).hexdigest()
    return f"{name[: LONGEST_NAME - _DIGITS - 1]}_{digest[:_DIGITS]}"
