"""The command line. `main` is the console script; everything else loads behind it."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run `weft` and end the process with its exit code."""
    try:
        from .app import run

        code = run()
    except KeyboardInterrupt:
        # Ctrl-C before click was even there to hear it.
        code = 130
    sys.exit(code)
