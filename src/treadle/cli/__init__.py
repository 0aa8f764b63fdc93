"""The command line. `main` is the console script; everything else loads behind it."""

from __future__ import annotations

import gc
import sys

__all__ = ["main"]

_YOUNG = 100_000
"""Objects that are created before the first garbage collection: more than a command loads."""


def main() -> None:
    """Run `treadle` and end the process with its exit code."""
    gc.set_threshold(_YOUNG)
    try:
        from .app import run

        code = run()
    except KeyboardInterrupt:
        # Ctrl-C before click was even there to hear it.
        code = 130
    sys.exit(code)
