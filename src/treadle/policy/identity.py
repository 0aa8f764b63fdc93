"""Identity: who a run is to its model's provider.

Owns the value and the Protocol that harnesses and routes share. Invariant: a credential is
asked for before each connection and never kept.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from .auth.accounts import Login
from .auth.credential import Credential

__all__ = ["Identifies", "Identity", "nobody"]


class Identity(Struct, frozen=True, kw_only=True):
    """Who a run is to its model's provider; nobody in particular without a credential."""

    profile: str = ""
    credential: Credential | None = None
    login: Login | None = None
    """How the harness signs in with it; None if it does not sign in by itself."""


class Identifies(Protocol):
    """Says who a run is. Ask before each connection: credentials end."""

    async def __call__(self, *, rejected: str = "") -> Identity:
        """The identity, with another credential than `rejected` if there is one.

        Raises `AuthError`.
        """
        ...


async def nobody(*, rejected: str = "") -> Identity:
    """Says that it is nobody in particular."""
    del rejected
    return Identity()
