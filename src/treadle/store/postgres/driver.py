"""The driver of PostgreSQL.

Owns what is said where it is not installed. Invariant: no other module of ours imports psycopg.
"""

from __future__ import annotations

import logging

from ...core.errors import ConfigError
from ...core.install import install_command

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import TransactionStatus
    from psycopg.types.numeric import Int8BinaryDumper
except ImportError as error:
    raise ConfigError(
        f"threads in PostgreSQL need the driver psycopg ({error}); "
        f"run {install_command('postgres')}"
    ) from error

__all__ = ["Int8BinaryDumper", "TransactionStatus", "conninfo_to_dict", "psycopg", "quiet_driver"]


def quiet_driver() -> None:
    """Let the driver not warn of what it raises as well: users would see it twice."""
    logging.getLogger("psycopg").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return not record.msg.startswith("error ignored")
