"""Providers: from a name such as ``openai:gpt-5.5`` to a model that answers.

Owns the built-in providers, how third parties add theirs (entry points of the group
``treadle.models``), which adapter speaks which API, and how a key is sent. Invariant: a key
is read from where the user put it, sent to that provider only, and never shown; without a
key that is needed there is no request, and the error names the variable to set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from ..core.errors import ConfigError
from ..core.plugins import PluginGroup
from ..core.redact import add_secrets
from .catalog import Catalog, nearest_hint
from .contract import AuthFailed, Capabilities, Model
from .endpoint import Endpoint
from .profile import ModelProfile
from .retry import Backoff
from .transport import AsyncTransport, Timeouts, Transport

__all__ = [
    "ANTHROPIC_VERSION",
    "Api",
    "ModelOpener",
    "OpenerContext",
    "ProviderAccess",
    "ProviderConfig",
    "connect",
    "open_model",
    "provider_access",
    "provider_names",
    "provider_settings",
]

_MODELS = PluginGroup("treadle.models", "provider")
"""Packages offer the openers of their providers."""

Api: TypeAlias = Literal["responses", "chat", "messages"]

ANTHROPIC_VERSION = "2023-06-01"

_SECRET = "(?i)key|token|secret|auth|cookie"  # noqa: S105 - a pattern
"""Matches the names of headers that hold credentials."""


class ProviderConfig(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to reach a provider; a field that is None has no setting.

    Without a `base_url` the variable ``<PROVIDER>_BASE_URL`` must name one; the variable
    always wins. The key is `key`, else the value of the variable `key_variable`, by default
    ``<PROVIDER>_API_KEY``.
    """

    api: Api | None = None
    """``chat`` by default."""
    base_url: str | None = None
    key: str | None = None
    key_variable: str | None = None
    key_required: bool | None = None
    """Whether requests without a key are useless; True by default."""
    headers: dict[str, str] | None = None
    idle_timeout: float | None = None
    """Seconds of silence after which a stream counts as cut; 300 by default."""
    answer_timeout: float | None = None
    """Seconds that one answer may take as a whole; 3,600 by default."""
    retries: int | None = None
    """How often a request without an answer is sent again; 4 by default."""
    remote_compaction: Literal["none", "endpoint", "trigger"] | None = None

    def with_overrides(self, other: ProviderConfig | None) -> ProviderConfig:
        """Return these settings with those that `other` sets on top."""
        fields = structs.asdict(other) if other is not None else {}
        given = {name: value for name, value in fields.items() if value is not None}
        return structs.replace(self, **given)

    def __repr__(self) -> str:
        key = "…" if self.key else ""
        return f"ProviderConfig(api={self.api!r}, base_url={self.base_url!r}, key={key!r})"


_DEFAULTS = ProviderConfig(
    api="chat", key_required=True, idle_timeout=300.0, answer_timeout=3_600.0
)

_PROVIDERS: dict[str, ProviderConfig] = {
    "openai": ProviderConfig(api="responses", base_url="https://api.openai.com/v1"),
    "anthropic": ProviderConfig(api="messages", base_url="https://api.anthropic.com/v1"),
    "cerebras": ProviderConfig(base_url="https://api.cerebras.ai/v1"),
    "deepseek": ProviderConfig(base_url="https://api.deepseek.com/v1"),
    "fireworks": ProviderConfig(base_url="https://api.fireworks.ai/inference/v1"),
    "gemini": ProviderConfig(base_url="https://generativelanguage.googleapis.com/v1beta/openai"),
    "groq": ProviderConfig(base_url="https://api.groq.com/openai/v1"),
    "mistral": ProviderConfig(base_url="https://api.mistral.ai/v1"),
    "openrouter": ProviderConfig(base_url="https://openrouter.ai/api/v1"),
    "together": ProviderConfig(base_url="https://api.together.xyz/v1"),
    "xai": ProviderConfig(base_url="https://api.x.ai/v1"),
    "llamacpp": ProviderConfig(base_url="http://127.0.0.1:8080/v1", key_required=False),
    "lmstudio": ProviderConfig(base_url="http://127.0.0.1:1234/v1", key_required=False),
    "local": ProviderConfig(base_url="http://127.0.0.1:8000/v1", key_required=False),
    "ollama": ProviderConfig(base_url="http://127.0.0.1:11434/v1", key_required=False),
    "vllm": ProviderConfig(base_url="http://127.0.0.1:8000/v1", key_required=False),
}
_OPENERS = {"scripted": "treadle.testing.scripted:open_scripted"}
"""Openers of our own that the library must not import by itself."""


class OpenerContext(Struct, frozen=True):
    """What an opener gets: the model's name, and where to look things up."""

    provider: str
    model: str
    """The name without the provider."""
    catalog: Catalog
    environ: Mapping[str, str]
    config: Mapping[str, ProviderConfig]
    transport: Transport | None = None
    """A transport to share; the model closes only one of its own."""

    __repr__ = object.__repr__  # the environment may hold secrets

    @property
    def profile(self) -> ModelProfile:
        """The facts about the model, with the provider that was asked for."""
        return structs.replace(self.catalog.profile(self.model), provider=self.provider)


ModelOpener: TypeAlias = Callable[[OpenerContext], Model]
"""Opens the models of one provider."""


def open_model(
    name: str,
    *,
    environ: Mapping[str, str],
    catalog: Catalog,
    config: Mapping[str, ProviderConfig] | None = None,
    transport: Transport | None = None,
) -> Model:
    """Open the model named ``provider:model``. Raises `ConfigError` and `AuthFailed`.

    `config` adds providers, or changes the settings of one, field by field.
    """
    added = config or {}
    provider, slug = _split(name, catalog, added)
    context = OpenerContext(provider, slug, catalog, environ, added, transport)
    opener = None if provider in added else _load_opener(provider)
    if opener is not None:
        return opener(context)
    settings = provider_settings(provider, added)
    shared = transport is not None
    chosen = transport or AsyncTransport.from_environment(environ)
    return connect(context.profile, settings, environ, chosen, shared_transport=shared)


def connect(
    profile: ModelProfile,
    config: ProviderConfig,
    environ: Mapping[str, str],
    transport: Transport,
    *,
    shared_transport: bool = False,
) -> Model:
    """Return the adapter for `profile`. Raises `ConfigError` and `AuthFailed`."""
    name = f"{profile.provider}:{profile.slug}"
    config = _DEFAULTS.with_overrides(config)
    key = _find_key(profile.provider, config, environ)
    endpoint = Endpoint(
        _base_url(profile.provider, config, environ),
        transport,
        {**_credentials(config.api, key), **(config.headers or {})},
        Timeouts(idle=config.idle_timeout, total=config.answer_timeout),
        Backoff() if config.retries is None else Backoff(retries=config.retries),
    )
    capabilities = _capabilities(profile, config)
    match config.api:  # a first request loads one adapter only
        case "responses":
            from .responses_model import ResponsesModel

            return ResponsesModel(name, capabilities, endpoint, shared_transport)
        case "chat" | None:
            from .chat_model import ChatModel

            return ChatModel(name, capabilities, endpoint, shared_transport)
        case "messages":
            from .messages_model import MessagesModel

            return MessagesModel(name, capabilities, endpoint, shared_transport)


def provider_settings(
    provider: str, config: Mapping[str, ProviderConfig] | None = None
) -> ProviderConfig:
    """Return the built-in settings of a provider, with those of `config` on top."""
    return _PROVIDERS.get(provider, ProviderConfig()).with_overrides((config or {}).get(provider))


def provider_names(config: Mapping[str, ProviderConfig] | None = None) -> tuple[str, ...]:
    """Return the names of all providers."""
    return tuple(sorted({*_PROVIDERS, *_OPENERS, *_MODELS.names(), *(config or {})}))


class ProviderAccess(Struct, frozen=True, kw_only=True):
    """The address of a provider and our credentials, for code that sends its own requests."""

    api: Api
    base_url: str
    key: str
    key_variable: str
    headers: dict[str, str]
    idle_timeout: float | None
    retries: int | None

    def __repr__(self) -> str:
        return f"ProviderAccess(base_url={self.base_url!r})"


def provider_access(
    provider: str, config: ProviderConfig, environ: Mapping[str, str]
) -> ProviderAccess:
    """Return how `provider` is reached. Raises `ConfigError` and `AuthFailed`."""
    settings = _DEFAULTS.with_overrides(config)
    return ProviderAccess(
        api=settings.api or "chat",
        base_url=_base_url(provider, settings, environ),
        key=_find_key(provider, settings, environ),
        key_variable=settings.key_variable or _variable(provider, "API_KEY"),
        headers=settings.headers or {},
        idle_timeout=config.idle_timeout,
        retries=config.retries,
    )


def _split(name: str, catalog: Catalog, config: Mapping[str, ProviderConfig]) -> tuple[str, str]:
    provider, colon, slug = name.partition(":")
    if colon and _is_known(provider, config):
        return provider, slug
    profile = catalog.profile(name)
    if (not colon or profile.known) and _is_known(profile.provider, config):
        return profile.provider, profile.slug
    known = provider_names(config)
    hint = nearest_hint(provider, known) or f"; known are {', '.join(known)}"
    raise ConfigError(f"there is no provider {provider!r} for the model {name!r}{hint}")


def _is_known(provider: str, config: Mapping[str, ProviderConfig]) -> bool:
    # Other packages come last: that reads the metadata of all that are installed.
    ours = provider in _PROVIDERS or provider in _OPENERS or provider in config
    return ours or provider in provider_names()


def _load_opener(provider: str) -> ModelOpener | None:
    if provider in _OPENERS:
        module, _, attribute = _OPENERS[provider].partition(":")
        opener: ModelOpener = getattr(import_module(module), attribute)
        return opener
    if provider in _PROVIDERS:
        return None
    loaded: ModelOpener | None = _MODELS.load(provider)
    return loaded


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
            f"the provider {provider!r} has no address; set {variable} or its `base_url`"
        )
    # Anthropic's own variable holds the address without the version.
    return url if config.api != "messages" or url.endswith("/v1") else f"{url}/v1"


def _find_key(provider: str, config: ProviderConfig, environ: Mapping[str, str]) -> str:
    """Return the key, and register it as a secret that no text may show."""
    variable = config.key_variable or _variable(provider, "API_KEY")
    key = (config.key or environ.get(variable, "")).strip()
    if not key and config.key_required:
        raise AuthFailed(
            f"no key for the provider {provider!r}; set {variable}, or run `treadle auth`",
            code="missing_key",
        )
    headers = config.headers or {}
    add_secrets(key, *(value for name, value in headers.items() if re.search(_SECRET, name)))
    return key


def _credentials(api: Api | None, key: str) -> dict[str, str]:
    if api == "messages":
        version = {"anthropic-version": ANTHROPIC_VERSION}
        return {**version, "x-api-key": key} if key else version
    return {"authorization": f"Bearer {key}"} if key else {}
