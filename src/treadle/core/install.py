"""Install commands: what people are told to run to add something.

Owns the one place that knows whether Treadle is on the package index. Invariant: a command
that is told to people works today.
"""

from __future__ import annotations

__all__ = ["RELEASED", "install_command"]

RELEASED = False
"""Set with the first release; until then a clone is the only place to install from."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra, for a text that names it in backticks.

    >>> install_command("codex")
    "`pip install '.[codex]'` in a clone of Treadle"
    """
    if RELEASED:
        return f"`pip install 'treadle[{extra}]'`"
    return f"`pip install '.[{extra}]'` in a clone of Treadle"
