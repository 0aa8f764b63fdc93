"""Threads in a PostgreSQL database: the same contract, for many machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .database_index import PostgresIndex
    from .postgres_store import PostgresStore

__all__ = ["PostgresIndex", "PostgresStore"]

__getattr__ = lazy_attributes(
    __name__, {"database_index": "PostgresIndex", "postgres_store": "PostgresStore"}
)
