"""Connecting: a provider's settings and a model's facts become an adapter.

Owns which adapter speaks which API, what each can do, and how a key is presented.
Invariant: no key, no request; the error names the variable to set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from ..core.errors import ConfigError
from ..core.patterns import regex
from ..core.redact import add_secrets
from .contract import AuthFailed, Capabilities, Model
from .endpoint import Endpoint
from .profile import ModelProfile
from .retry import Backoff
from .transport import Timeouts, Transport

__all__ = [
    "ANTHROPIC_VERSION",
    "Api",
    "ProviderAccess",
    "ProviderConfig",
    "connect",
    "provider_access",
]

Api: TypeAlias = Literal["responses", "chat", "messages"]

ANTHROPIC_VERSION = "2023-06-01"

_SECRET = regex("key|token|secret|auth|cookie", re.IGNORECASE)
"""Names of headers that let someone in."""


class ProviderConfig(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to reach a provider; a field that is left out says nothing.

    Without a `base_url` the variable ``<PROVIDER>_BASE_URL`` must name one; it always
    comes first. The key is `key`, else what the variable `key_variable` holds, which is
    ``<PROVIDER>_API_KEY`` unless it says otherwise.
    """

    api: Api | None = None
    """``chat`` unless it says otherwise."""
    base_url: str | None = None
    key: str | None = None
    key_variable: str | None = None
    key_required: bool | None = None
    """Whether there is nothing to be had without a key; so unless it says otherwise."""
    headers: dict[str, str] | None = None
    idle_timeout: float | None = None
    """Seconds of silence after which a stream counts as cut; 300 unless it says otherwise."""
    retries: int | None = None
    """How often a request without an answer is sent again; 4 unless it says otherwise."""
    remote_compaction: Literal["none", "endpoint", "trigger"] | None = None

    def with_overrides(self, other: ProviderConfig | None) -> ProviderConfig:
        """These settings with what `other` says on top."""
        told = structs.asdict(other) if other is not None else {}
        said = {name: value for name, value in told.items() if value is not None}
        return structs.replace(self, **said)

    def __repr__(self) -> str:
        key = "…" if self.key else ""
        return f"ProviderConfig(api={self.api!r}, base_url={self.base_url!r}, key={key!r})"


_DEFAULTS = ProviderConfig(api="chat", key_required=True, idle_timeout=300.0)


def connect(
    profile: ModelProfile,
    config: ProviderConfig,
    environ: Mapping[str, str],
    transport: Transport,
    *,
    shared_transport: bool = False,
) -> Model:
    """The adapter for `profile`. Raises `ConfigError` and `AuthFailed`."""
    name = f"{profile.provider}:{profile.slug}"
    config = _DEFAULTS.with_overrides(config)
    key = _key(profile.provider, config, environ)
    endpoint = Endpoint(
        _base_url(profile.provider, config, environ),
        transport,
        {**_credentials(config.api, key), **(config.headers or {})},
        Timeouts(idle=config.idle_timeout),
        Backoff() if config.retries is None else Backoff(retries=config.retries),
    )
    capabilities = _capabilities(profile, config)
    match config.api:
        case "responses":
            from .responses import ResponsesModel

            return ResponsesModel(name, capabilities, endpoint, shared_transport)
        case "chat" | None:
            from .chat import ChatModel

            return ChatModel(name, capabilities, endpoint, shared_transport)
        case "messages":
            from .messages import MessagesModel

            return MessagesModel(name, capabilities, endpoint, shared_transport)


class ProviderAccess(Struct, frozen=True, kw_only=True):
    """Where a provider is, and who we are there, for those who ask it without us."""

    api: Api
    base_url: str
    key: str
    key_variable: str
    headers: dict[str, str]
    idle_timeout: float | None
    retries: int | None

    def __repr__(self) -> str:
        return f"Reached(base_url={self.base_url!r})"


def provider_access(
    provider: str, config: ProviderConfig, environ: Mapping[str, str]
) -> ProviderAccess:
    """How `provider` is reached. Raises `ConfigError` and `AuthFailed`."""
    known = _DEFAULTS.with_overrides(config)
    return ProviderAccess(
        api=known.api or "chat",
        base_url=_base_url(provider, known, environ),
        key=_key(provider, known, environ),
        key_variable=known.key_variable or _variable(provider, "API_KEY"),
        headers=known.headers or {},
        idle_timeout=config.idle_timeout,
        retries=config.retries,
    )


def _capabilities(profile: ModelProfile, config: ProviderConfig) -> Capabilities:
    responses = config.api == "responses"
    openai = profile.provider == "openai"
    return Capabilities(
        reasoning_summaries=config.api != "chat" and profile.reasoning_summary != "none",
        output_schema=True,
        prompt_cache_key=responses or openai,
        remote_compaction=config.remote_compaction
        or ("endpoint" if responses and openai else "none"),
        images=profile.images,
        freeform_tools=responses,
        parallel_tool_calls=profile.parallel_tool_calls,
    )


def _variable(provider: str, suffix: str) -> str:
    return f"{provider.upper().replace('-', '_')}_{suffix}"


def _base_url(provider: str, config: ProviderConfig, environ: Mapping[str, str]) -> str:
    variable = _variable(provider, "BASE_URL")
    url = (environ.get(variable) or config.base_url or "").rstrip("/")
    if not url:
        raise ConfigError(
            f"where is the provider {provider!r}? Set {variable} or `base_url` in its settings"
        )
    # Anthropic's own variable holds the address without the version.
    return url if config.api != "messages" or url.endswith("/v1") else f"{url}/v1"


def _key(provider: str, config: ProviderConfig, environ: Mapping[str, str]) -> str:
    variable = config.key_variable or _variable(provider, "API_KEY")
    key = (config.key or environ.get(variable, "")).strip()
    if not key and config.key_required:
        raise AuthFailed(
            f"no key for the provider {provider!r}; set {variable}, or run `treadle auth`",
            code="missing_key",
        )
    add_secrets(key, *_secret_headers(config.headers or {}))
    return key


def _secret_headers(headers: Mapping[str, str]) -> list[str]:
    """Those of the configured headers that let someone in."""
    return [value for name, value in headers.items() if _SECRET.search(name)]


def _credentials(api: Api | None, key: str) -> dict[str, str]:
    if api == "messages":
        version = {"anthropic-version": ANTHROPIC_VERSION}
        return {**version, "x-api-key": key} if key else version
    return {"authorization": f"Bearer {key}"} if key else {}
