"""Providers: from a name such as ``openai:gpt-5.5`` to a model that answers.

Owns the built-in providers, how third parties add theirs (entry points of the group
``treadle.models``), which adapter speaks which API, and how a key is sent. Invariant: a key
is read from where the user put it, sent to that provider only, and never shown; without a
key that is needed there is no request, and the error names the variable to set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from ..core.errors import ConfigError, InvalidOption
from ..core.plugins import PluginGroup
from ..core.redact import add_secrets
from .catalog import Catalog, nearest_hint
from .contract import AuthFailed, Capabilities, Model
from .endpoint import Endpoint
from .profile import ModelProfile
from .provider_address import (
    ProviderAddress,
    add_header_secrets,
    has_credentials,
    headers_from_variables,
    provider_address,
)
from .transport import AsyncTransport, Proxies, Timeouts, TlsTrust, Transport

__all__ = [
    "ANTHROPIC_VERSION",
    "Api",
    "ModelOpener",
    "OpenerContext",
    "ProviderAccess",
    "ProviderConfig",
    "check_model_name",
    "connect",
    "key_headers",
    "open_model",
    "provider_access",
    "provider_names",
    "provider_settings",
]

_MODELS = PluginGroup("treadle.models", "provider")
"""Packages offer the openers of their providers."""

Api: TypeAlias = Literal["responses", "chat", "messages"]

ANTHROPIC_VERSION = "2023-06-01"


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
    key_header: str | None = None
    """The header that carries the key as it is; a bearer token by default."""
    headers: dict[str, str] | None = None
    env_headers: dict[str, str] | None = None
    """Headers whose values are in environment variables, by the names of both."""
    query_params: dict[str, str] | None = None
    """Parameters in the URL of every request, over those that `base_url` has."""
    ca_file: str | None = None
    """A PEM file with certificate authorities, besides the usual ones."""
    client_certificate: str | None = None
    """A PEM file with the certificate that we show, and its key unless that has a file."""
    client_key: str | None = None
    idle_timeout: float | None = None
    """Seconds of silence after which a stream counts as cut; 300 by default."""
    answer_timeout: float | None = None
    """Seconds that one answer may take as a whole; 3,600 by default."""
    retries: int | None = None
    """How often a step whose answer failed is asked for again; 5 by default."""
    remote_compaction: Literal["none", "endpoint", "trigger"] | None = None
    deferred_tools: bool | None = None
    """Whether its address takes tools that a search finds; by default only OpenAI's and
    Anthropic's own do."""

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
    "azure": ProviderConfig(
        api="responses", key_variable="AZURE_OPENAI_API_KEY", key_header="api-key"
    ),
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
_DEFERRING = tuple(_PROVIDERS[name].base_url for name in ("openai", "anthropic"))
"""Addresses that know tools which a search finds."""
_OPENERS = {"scripted": "treadle.testing.scripted:open_scripted"}
"""Openers of our own that the library must not import by itself."""


_MEANT = {
    "chatgpt": "openai",
    "claude": "anthropic",
    "claude-code": "anthropic",
    "google": "gemini",
    "gpt": "openai",
    "gpt-oss": "ollama:gpt-oss",
    "grok": "xai",
    "vertex": "gemini",
}
"""What people call providers."""


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
        known = self.catalog.with_providers((self.provider,))
        return known.profile(f"{self.provider}:{self.model}")


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
    shared = transport is not None and not _has_own_tls(settings)
    chosen = transport if transport is not None and shared else _open_transport(settings, environ)
    return connect(context.profile, settings, environ, chosen, shared_transport=shared)


def check_model_name(
    name: str, catalog: Catalog, config: Mapping[str, ProviderConfig] | None = None
) -> None:
    """Raise `InvalidOption` for a name that no provider could know."""
    provider, slug = _split(name, catalog, config or {})
    if not slug.strip():
        raise InvalidOption(
            f"{name!r} names no model; write 'PROVIDER:MODEL', "
            f"`treadle models --provider {provider}` lists some"
        )


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
    address = _address(profile.provider, config, environ)
    endpoint = Endpoint(
        address.base_url,
        transport,
        {
            **key_headers(config.api, key, config.key_header),
            **(config.headers or {}),
            **_env_headers(profile.provider, config, environ),
        },
        Timeouts(idle=config.idle_timeout, total=config.answer_timeout),
        query=address.query_string,
    )
    capabilities = _capabilities(profile, config, address.base_url)
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
    key_header: str | None
    headers: dict[str, str]
    env_headers: dict[str, str]
    """The names of variables, by the headers that they are for."""
    query_params: dict[str, str]
    idle_timeout: float | None
    retries: int | None

    def __repr__(self) -> str:
        return f"ProviderAccess(base_url={self.base_url!r})"


def provider_access(
    provider: str, config: ProviderConfig, environ: Mapping[str, str]
) -> ProviderAccess:
    """Return how `provider` is reached. Raises `ConfigError` and `AuthFailed`."""
    settings = _DEFAULTS.with_overrides(config)
    address = _address(provider, settings, environ)
    _env_headers(provider, settings, environ)
    return ProviderAccess(
        api=settings.api or "chat",
        base_url=address.base_url,
        key=_find_key(provider, settings, environ),
        key_variable=settings.key_variable or _variable(provider, "API_KEY"),
        key_header=settings.key_header,
        headers=settings.headers or {},
        env_headers=settings.env_headers or {},
        query_params=address.query,
        idle_timeout=config.idle_timeout,
        retries=config.retries,
    )


def _split(name: str, catalog: Catalog, config: Mapping[str, ProviderConfig]) -> tuple[str, str]:
    prefix, colon, rest = name.partition(":")
    if colon and _is_known(prefix, config):
        return prefix, rest
    provider, slug = catalog.split(name)
    if provider and _is_known(provider, config):
        return provider, slug
    profile = catalog.profile(name)
    is_slug = not colon or (profile.known and not _looks_like_a_provider(prefix, profile))
    if is_slug and _is_known(profile.provider, config):
        return profile.provider, profile.slug
    raise InvalidOption(_unknown_provider(prefix, rest, config))


def _looks_like_a_provider(prefix: str, profile: ModelProfile) -> bool:
    """Say whether the start of a name is a provider rather than a model that has tags.

    Models of one's own machine are called ``qwen:7b``, versions of others ``claude-x-v1:0``.
    """
    return profile.provider != "local" and not any(sign.isdigit() for sign in prefix)


def _unknown_provider(prefix: str, slug: str, config: Mapping[str, ProviderConfig]) -> str:
    # The models of Codex's own are reached by way of Codex only, under this name.
    known = sorted((*provider_names(config), "codex"))
    meant = _MEANT.get(prefix.strip().lower())
    hint = f"; did you mean {meant!r}?" if meant else nearest_hint(prefix, known)
    hint = hint or f"; known are {', '.join(known)}"
    return f"there is no provider {prefix!r} for the model {f'{prefix}:{slug}'!r}{hint}"


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


def _capabilities(profile: ModelProfile, config: ProviderConfig, address: str) -> Capabilities:
    responses = config.api == "responses"
    openai = profile.provider == "openai"
    defers = config.deferred_tools
    if defers is None:
        defers = address in _DEFERRING
    return Capabilities(
        reasoning_summaries=config.api != "chat",
        output_schema=True,
        prompt_cache_key=responses or openai,
        remote_compaction=config.remote_compaction
        or ("endpoint" if responses and openai else "none"),
        images=profile.images,
        freeform_tools=responses,
        # Proxies often drop what they do not know.
        deferred_tools=defers and profile.deferred_tools and config.api != "chat",
    )


def _variable(provider: str, suffix: str) -> str:
    return f"{provider.upper().replace('-', '_')}_{suffix}"


def _address(provider: str, config: ProviderConfig, environ: Mapping[str, str]) -> ProviderAddress:
    variable = _variable(provider, "BASE_URL")
    found = provider_address(environ.get(variable) or config.base_url or "", config.query_params)
    if not found.base_url:
        raise ConfigError(
            f"the provider {provider!r} has no address; set {variable} or its `base_url`"
        )
    # Anthropic's own variable holds the address without the version.
    if config.api == "messages" and not found.base_url.endswith("/v1"):
        found = structs.replace(found, base_url=f"{found.base_url}/v1")
    return found


def _env_headers(
    provider: str, config: ProviderConfig, environ: Mapping[str, str]
) -> dict[str, str]:
    needed = config.key_required is not False
    return headers_from_variables(provider, config.env_headers, environ, needed=needed)


def _has_own_tls(config: ProviderConfig) -> bool:
    return bool(config.ca_file or config.client_certificate)


def _open_transport(config: ProviderConfig, environ: Mapping[str, str]) -> AsyncTransport:
    """Return a transport with the authorities and the certificate of a provider."""
    authorities = (Path(config.ca_file).expanduser(),) if config.ca_file else ()
    trust = TlsTrust.from_environment(environ, *authorities)
    if config.client_certificate:
        trust = structs.replace(
            trust,
            certificate=Path(config.client_certificate).expanduser(),
            key=Path(config.client_key).expanduser() if config.client_key else None,
        )
    return AsyncTransport(proxies=Proxies.from_environment(environ), trust=trust)


def _find_key(provider: str, config: ProviderConfig, environ: Mapping[str, str]) -> str:
    """Return the key, and register it as a secret that no text may show."""
    variable = config.key_variable or _variable(provider, "API_KEY")
    key = (config.key or environ.get(variable, "")).strip()
    named = has_credentials(config.headers, config.env_headers)
    if not key and config.key_required and not named:
        raise AuthFailed(
            f"no key for the provider {provider!r}; run `treadle auth add {provider}`, "
            f"or set {variable}",
            code="missing_key",
        )
    add_secrets(key)
    add_header_secrets(config.headers)
    return key


def key_headers(api: Api | None, key: str, key_header: str | None = None) -> dict[str, str]:
    """Return the headers that carry `key` to an API."""
    version = {"anthropic-version": ANTHROPIC_VERSION} if api == "messages" else {}
    if not key:
        return version
    if key_header:
        return {**version, key_header: key}
    return {**version, "x-api-key": key} if version else {"authorization": f"Bearer {key}"}
