"""Log records on the command line: a line each, on standard error.

Owns how people and programs are shown what the library logs. Invariants: a record is one line
that is safe for a terminal, whatever it tells of, and never a traceback; secrets are blanked.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import click

from ..core.errors import TreadleError
from ..core.redact import redact
from .output import one_line

__all__ = ["LogFormat", "LogLevel", "hide_logs", "show_logs"]

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LogFormat: TypeAlias = Literal["text", "json"]

_WIDTH = 1_000


class _Lines(logging.Handler):
    """Prints a record on standard error."""

    format_as: LogFormat = "text"

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record, with its error."""
        click.echo(_LINES[self.format_as](record), err=True)


def _text_line(record: logging.LogRecord) -> str:
    return f"treadle: {_record_text(record)}"


def _json_line(record: logging.LogRecord) -> str:
    told = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": _record_text(record),
        "process": record.process,
    }
    return json.dumps(told, ensure_ascii=False)


_LINES = {"text": _text_line, "json": _json_line}


def _record_text(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    said = record.getMessage() + ("" if error is None else f": {_error_text(error)}")
    return one_line(redact(said), _WIDTH)


def _error_text(error: BaseException) -> str:
    return str(error) if isinstance(error, TreadleError) else f"{type(error).__name__}: {error}"


_lines = _Lines(logging.WARNING)


def show_logs(level: LogLevel = "warning", format_as: LogFormat = "text") -> None:
    """Print what the library logs from `level` on, on standard error."""
    _lines.setLevel(level.upper())
    _lines.format_as = format_as
    logger = logging.getLogger("treadle")
    logger.addHandler(_lines)
    if level != "warning":
        logger.setLevel(level.upper())


def hide_logs() -> None:
    """Hide log records, for commands that cause errors on purpose."""
    _lines.setLevel(logging.CRITICAL + 1)
