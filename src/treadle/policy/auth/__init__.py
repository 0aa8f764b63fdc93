"""Profiles: who Treadle is to a provider, their secrets and their health.

`Wallet` is the way in; `order` and `aliases` are the rules it follows, without I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .errors import AuthError, ProfileUnusable, RouteRefused
    from .profile import ApiKey, Credential, Kind, OAuth, Profile, Token, profile_id
    from .wallet import Wallet

__all__ = [
    "ApiKey",
    "AuthError",
    "Credential",
    "Kind",
    "OAuth",
    "Profile",
    "ProfileUnusable",
    "RouteRefused",
    "Token",
    "Wallet",
    "profile_id",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "errors": "AuthError ProfileUnusable RouteRefused",
        "profile": "ApiKey Credential Kind OAuth Profile Token profile_id",
        "wallet": "Wallet",
    },
)
