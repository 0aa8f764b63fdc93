"""The variables in which keys of providers are looked for.

Invariant: a provider has one variable, which its settings may name otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping

from .settings import ProviderSettings

__all__ = ["key_variable"]


def key_variable(provider: str, providers: Mapping[str, ProviderSettings]) -> str:
    """The variable in which the key of `provider` is looked for."""
    configured = providers.get(provider, ProviderSettings()).key_variable
    if isinstance(configured, str):
        return configured
    return f"{provider.upper().replace('-', '_')}_API_KEY"
