"""Tests of profiles: whether a provider accepts one.

Owns the one request that `treadle auth test` sends. Invariant: it asks for nothing that
costs anything, and what it finds out is noted as any turn would.
"""

from __future__ import annotations

import os
from urllib.parse import urlencode

from msgspec import Struct

from ..config import Settings
from ..core.errors import ConfigError
from ..core.redact import redact
from ..models.contract import AuthFailed
from ..models.providers import (
    ProviderAccess,
    ProviderConfig,
    provider_access,
    provider_settings,
)
from ..models.server_questions import listing_headers
from ..models.transport import AsyncTransport, Timeouts, TransportError
from ..policy.auth import AuthError, CredentialStore, ProfileUnusable
from ..policy.auth.subscription import is_subscription, subscription_url
from .thread_setup import providers_of

__all__ = ["ProfileTest", "listing_url", "test_profile"]

_TIMEOUTS = Timeouts(connect=10.0, idle=20.0, total=30.0)


class ProfileTest(Struct, frozen=True, kw_only=True):
    """The result of a test."""

    profile: str
    works: bool | None
    """None when the test could not find out."""
    said: str


async def test_profile(
    credentials: CredentialStore, settings: Settings, profile: str
) -> ProfileTest:
    """Ask the provider of `profile` for its models."""
    try:
        credential = await credentials.credential(profile)
        place = _access(settings, credential.provider, credential.bearer)
    except ProfileUnusable as error:
        return ProfileTest(profile=profile, works=False, said=str(error))
    except (AuthError, AuthFailed, ConfigError) as error:
        return ProfileTest(profile=profile, works=None, said=str(error))
    if is_subscription(credential) and subscription_url(place.base_url) != place.base_url:
        said = "a subscription's token is tried by a turn only; nothing was sent"
        return ProfileTest(profile=profile, works=None, said=said)
    status = await _status(place)
    if isinstance(status, str):
        return ProfileTest(profile=profile, works=None, said=status)
    if 200 <= status < 300:
        await credentials.note_success(profile)
        return ProfileTest(profile=profile, works=True, said="the provider accepts it")
    if status in (401, 403):
        await credentials.note_failure(profile, "auth")
        return ProfileTest(profile=profile, works=False, said=f"the provider refuses it ({status})")
    return ProfileTest(profile=profile, works=None, said=f"the provider answered {status}")


def _access(settings: Settings, provider: str, bearer: str) -> ProviderAccess:
    config = provider_settings(provider, providers_of(settings))
    wanted = frozenset((config.env_headers or {}).values())
    variables = {
        name: value
        for name, value in os.environ.items()
        if name.endswith("_BASE_URL") or name in wanted
    }
    return provider_access(provider, config.with_overrides(ProviderConfig(key=bearer)), variables)


async def _status(place: ProviderAccess) -> int | str:
    async with AsyncTransport.from_environment(os.environ) as transport:
        try:
            async with await transport.get(
                listing_url(place), listing_headers(place), timeouts=_TIMEOUTS
            ) as response:
                return response.status
        except TransportError as error:
            return redact(str(error))


def listing_url(place: ProviderAccess) -> str:
    """Return where a provider lists its models."""
    query = f"?{urlencode(place.query_params)}" if place.query_params else ""
    return f"{place.base_url}/models{query}"
