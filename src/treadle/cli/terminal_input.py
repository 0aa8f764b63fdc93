"""The terminal: whether there is a user, and reading a line.

Invariant: the line editor is loaded only when somebody is asked, and writes to standard
error, so that what is piped on stays clean.
"""

from __future__ import annotations

import sys

__all__ = ["is_attended", "read_line"]


def is_attended() -> bool:
    """Return whether there is a user to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def read_line(prompt: str) -> str:
    """Read one line from the user. Raises `KeyboardInterrupt` and `EOFError`."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.output import create_output

    session: PromptSession[str] = PromptSession(output=create_output(stdout=sys.stderr))
    return await session.prompt_async(prompt)
