"""Pending calls: what stands for a call that became a task, until its outcome is known.

Owns the words in which a task is named, for a model to read and for us to find it again.
Invariant: what is read back is what was written here, and nothing that a server said.
"""

from __future__ import annotations

import json
import re

from ..core.wire import json_bytes

__all__ = ["find_task", "pending_text"]

_PENDING = re.compile(
    r'The MCP server "([A-Za-z0-9_-]{1,64})" still worked on this, as task ("(?:[^"\\]|\\.)*"), '
    r"when the run ended\."
)


def pending_text(server: str, task: str) -> str:
    """Return the output of a call whose server works on it as a task."""
    name = json_bytes(task).decode()
    return (
        f'The MCP server "{server}" still worked on this, as task {name}, when the run ended. '
        "What came of it is unknown."
    )


def find_task(text: str) -> tuple[str, str] | None:
    """Return the server and the task that an output names; None for other texts."""
    found = _PENDING.match(text)
    if found is None:
        return None
    return found[1], str(json.loads(found[2]))
