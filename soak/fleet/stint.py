"""What a worker of the fleet is told."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["FleetStint"]


class FleetStint(Struct, frozen=True, kw_only=True):
    """One life of one worker."""

    home: str
    base_url: str
    database: str = ""
    """The address of the store; empty for SQLite beside the home."""
    ahead: int = 0
    """Seconds that its clock is ahead."""
    turns: int = 6
    patience: float = 20.0
