"""Traits: what a harness brings itself.

Owns the value by which a harness tells the plan what need not be said or done for it.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Traits"]


class Traits(Struct, frozen=True, kw_only=True):
    """What a harness brings itself, so that nothing is said or done twice."""

    fragments: frozenset[str] = frozenset()
    """Fragments that it tells the model itself; ours of that name stay unsaid."""
    tools: bool = False
    """It has hands of its own; the built-in tools are not offered beside them."""
    room: bool = False
    """It keeps the conversation small itself, where no engine wants a say in that."""
    params: frozenset[str] | None = None
    """The parameters that it can be told, where it sends the requests itself."""
    keeps_login: bool = False
    """It runs in the user's home, with the login that it has there."""
    transport: str = "https+sse"
    """How its requests travel."""
