"""Profiles: who Weft is to a provider, their secrets and their health.

`Wallet` is the way in; `order` and `aliases` are the rules it follows, without I/O.
"""

from __future__ import annotations

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
