"""Providers: from a name such as ``openai:gpt-5.5`` to a model that answers.

Owns the built-in providers, and how third parties add theirs (entry points of the
group ``treadle.models``). Invariant: a key is read from where the user put it, sent to
that provider only, and shown to nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeAlias

import msgspec

from ..core.errors import ConfigError
from ..core.plugins import installed_points
from .catalog import Catalog
from .connect import ProviderConfig, connect
from .contract import Model
from .profile import ModelProfile
from .tables import nearest_hint
from .transport import AsyncTransport, Transport

__all__ = [
    "GROUP",
    "ModelOpener",
    "OpenerContext",
    "ProviderConfig",
    "open_model",
    "provider_names",
    "provider_settings",
]

GROUP = "treadle.models"
"""The entry points in which third parties name their providers' openers."""

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


class OpenerContext(msgspec.Struct, frozen=True):
    """What an opener is given: the model, and where to look things up."""

    provider: str
    model: str
    """The name without the provider."""
    catalog: Catalog
    environ: Mapping[str, str]
    config: Mapping[str, ProviderConfig]
    transport: Transport | None = None
    """A transport to share; the model closes only one of its own."""

    __repr__ = object.__repr__  # nobody is told what the environment holds

    @property
    def profile(self) -> ModelProfile:
        """The facts about the model, with the provider that was asked for."""
        found = self.catalog.profile(self.model)
        return msgspec.structs.replace(found, provider=self.provider)


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
    """The model named ``provider:model``. Raises `ConfigError` and `AuthFailed`.

    `config` adds providers, or changes what is known about one, field by field.
    """
    added = config or {}
    provider, slug = _split(name, catalog, added)
    opening = OpenerContext(provider, slug, catalog, environ, added, transport)
    opener = None if provider in added else _opener(provider)
    if opener is not None:
        return opener(opening)
    settings = provider_settings(provider, added)
    shared = transport is not None
    chosen = transport or AsyncTransport.from_environment(environ)
    return connect(opening.profile, settings, environ, chosen, shared_transport=shared)


def provider_settings(
    provider: str, config: Mapping[str, ProviderConfig] | None = None
) -> ProviderConfig:
    """What is known of a provider, with what `config` says on top."""
    return _PROVIDERS.get(provider, ProviderConfig()).with_overrides((config or {}).get(provider))


def provider_names(config: Mapping[str, ProviderConfig] | None = None) -> tuple[str, ...]:
    """Every provider that can be asked for."""
    others = {point.name for point in installed_points(GROUP)}
    return tuple(sorted({*_PROVIDERS, *_OPENERS, *others, *(config or {})}))


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
    # Other packages are asked last: that reads the metadata of all that are installed.
    ours = provider in _PROVIDERS or provider in _OPENERS or provider in config
    return ours or provider in provider_names()


def _opener(provider: str) -> ModelOpener | None:
    if provider in _OPENERS:
        module, _, attribute = _OPENERS[provider].partition(":")
        opener: ModelOpener = getattr(import_module(module), attribute)
        return opener
    if provider in _PROVIDERS:
        return None
    found = next((point for point in installed_points(GROUP) if point.name == provider), None)
    if found is None:
        return None
    try:
        loaded: ModelOpener = found.load()
    except Exception as error:
        raise ConfigError(
            f"the provider {provider!r} of the package behind {found.value!r} cannot be loaded: "
            f"{error}; update or remove that package"
        ) from error
    return loaded
