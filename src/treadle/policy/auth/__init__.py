"""Profiles: the accounts that Treadle uses with providers, their secrets and their health.

`CredentialStore` is what a turn uses; `order`, `cooldowns` and `accounts` are the rules it
follows, without I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.lazy import lazy_attributes

if TYPE_CHECKING:
    from .credential import (
        ApiKey,
        AuthError,
        Credential,
        Kind,
        OAuth,
        Profile,
        ProfileUnusable,
        RouteRefused,
        Token,
        profile_id,
    )
    from .credential_store import CredentialStore

__all__ = [
    "ApiKey",
    "AuthError",
    "Credential",
    "CredentialStore",
    "Kind",
    "OAuth",
    "Profile",
    "ProfileUnusable",
    "RouteRefused",
    "Token",
    "profile_id",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "credential": "ApiKey AuthError Credential Kind OAuth Profile ProfileUnusable "
        "RouteRefused Token profile_id",
        "credential_store": "CredentialStore",
    },
)
