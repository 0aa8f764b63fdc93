"""The command line. `main` is the console script; everything else loads behind it."""

from __future__ import annotations

import gc
import os
import sys

__all__ = ["main"]

_YOUNG = 100_000
"""Objects that are created before the first garbage collection: more than a command loads."""


def main() -> None:
    """Run `treadle` and end the process with its exit code."""
    gc.set_threshold(_YOUNG)
    _open_closed_streams()
    try:
        from .app import run

        code = run()
    except KeyboardInterrupt:
        # Ctrl-C before click was even there to hear it.
        code = 130
    sys.exit(code)


def _open_closed_streams() -> None:
    """Let standard streams that the caller closed lead nowhere.

    The next files that were opened would get their numbers, and read or write what is not
    theirs.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            place = os.open(os.devnull, os.O_RDWR)
            if place != number:
                os.dup2(place, number)
                os.close(place)
            mode = "w" if number else "r"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
