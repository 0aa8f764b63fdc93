"""Refreshing models: servers and the user's own Codex are asked what their models can do.

Owns who is asked, and how. Invariants: nothing that costs anything is asked; a key goes to
its own provider only; and a source that does not answer leaves its earlier report as it is.
"""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from ..config import Settings
from ..core.errors import ConfigError, TreadleError
from ..core.redact import redact
from ..models.model_lists import codex_default, read_codex_list
from ..models.model_reports import ModelReport, store_report
from ..models.providers import (
    ProviderAccess,
    ProviderConfig,
    provider_access,
    provider_names,
    provider_settings,
)
from ..models.server_questions import ServerQuestions
from ..models.transport import AsyncTransport
from ..policy.auth import CredentialStore
from ..policy.auth.subscription import is_subscription
from .thread_setup import providers_of

__all__ = ["CODEX", "RefreshResult", "refresh_models", "usual_sources"]

CODEX = "codex"


class RefreshResult(Struct, frozen=True, kw_only=True):
    """What became of one source."""

    source: str
    models: int = 0
    origin: str = ""
    problem: str = ""


def usual_sources(settings: Settings, credentials: CredentialStore) -> tuple[str, ...]:
    """Return whom to ask where nobody is named: Codex, and providers with a key or settings."""
    named = {each for each in provider_names() if credentials.profiles(each)}
    asked = sorted((named | set(settings.providers)) - {CODEX, "scripted"})
    return (CODEX, *asked) if _has_codex(settings) else tuple(asked)


async def refresh_models(
    home: Path, settings: Settings, credentials: CredentialStore, source: str
) -> RefreshResult:
    """Ask `source` for its models and store what it says; a failure is a result, too."""
    try:
        report = await (
            _ask_codex(settings) if source == CODEX else _ask_server(settings, credentials, source)
        )
        await asyncio.to_thread(store_report, home, source, report)
    except (TreadleError, OSError) as error:
        return RefreshResult(source=source, problem=redact(str(error)))
    return RefreshResult(source=source, models=len(report.models), origin=report.origin)


def _codex_binary(settings: Settings) -> Path:
    from ..prompt.codex_import import find_codex

    return Path(settings.codex.binary).expanduser() if settings.codex.binary else find_codex()


def _has_codex(settings: Settings) -> bool:
    try:
        return _codex_binary(settings).is_file()
    except ConfigError:
        return False


async def _ask_codex(settings: Settings) -> ModelReport:
    from ..harness.codex.codex_home import CodexHome
    from ..harness.codex.version import probe_version
    from ..prompt.codex_import import own_models

    binary = await asyncio.to_thread(_codex_binary, settings)
    version = await probe_version(binary)
    listing = await own_models(binary, CodexHome.of_user(os.environ).directory)
    return ModelReport(
        provider="openai",
        origin=f"Codex {version}" if version else "Codex",
        at=_now(),
        models=read_codex_list(listing),
        recommended=codex_default(listing),
    )


async def _ask_server(
    settings: Settings, credentials: CredentialStore, provider: str
) -> ModelReport:
    place = await _access(settings, credentials, provider)
    async with AsyncTransport.from_environment(os.environ) as transport:
        models = await ServerQuestions(provider, place, transport).models()
    return ModelReport(provider=provider, origin=place.base_url, at=_now(), models=models)


async def _access(
    settings: Settings, credentials: CredentialStore, provider: str
) -> ProviderAccess:
    config = provider_settings(provider, providers_of(settings))
    if not config.key:
        found = await credentials.resolve(provider)
        # A subscription's token is of no use where keys pay, and does not go there.
        usable = [
            each.profile.id for each in found if each.usable and not is_subscription(each.profile)
        ]
        bearer = (await credentials.credential(usable[0])).bearer if usable else ""
        config = config.with_overrides(ProviderConfig(key=bearer) if bearer else None)
    return provider_access(provider, config, os.environ)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
