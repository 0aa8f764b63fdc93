"""Services: small classes made of their parts.

Owns their shape. A struct is built twenty times faster than a data class, and a command
waits for all of them. Invariant: a service equals nothing but itself, and its parts,
among which are keys and environments, are not told by its `repr`.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Service"]


class Service(Struct, eq=False):
    """What does something, as opposed to a value."""

    __repr__ = object.__repr__
