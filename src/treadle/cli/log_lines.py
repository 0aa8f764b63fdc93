"""Log records on the command line: a line each, on standard error.

Owns how people are shown what the library logs. Invariant: a record is one line that is
safe for a terminal, whatever it tells of, and never a traceback.
"""

from __future__ import annotations

import logging

import click

from ..core.errors import TreadleError
from ..core.redact import redact
from .output import one_line

__all__ = ["hide_logs", "show_logs"]

_WIDTH = 1_000


class _Lines(logging.Handler):
    """Prints a record on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record, with its error."""
        error = record.exc_info[1] if record.exc_info else None
        said = record.getMessage() + ("" if error is None else f": {_error_text(error)}")
        click.echo(f"treadle: {one_line(redact(said), _WIDTH)}", err=True)


def _error_text(error: BaseException) -> str:
    return str(error) if isinstance(error, TreadleError) else f"{type(error).__name__}: {error}"


_lines = _Lines(logging.WARNING)


def show_logs() -> None:
    """Print warnings and errors of the library on standard error."""
    _lines.setLevel(logging.WARNING)
    logging.getLogger("treadle").addHandler(_lines)


def hide_logs() -> None:
    """Hide log records, for commands that cause errors on purpose."""
    _lines.setLevel(logging.CRITICAL + 1)
