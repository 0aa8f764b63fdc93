"""A server on the loopback interface that serves a script in all three wire formats."""

from __future__ import annotations

from .server import FakeServer

__all__ = ["FakeServer"]
