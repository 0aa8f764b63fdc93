"""Targets: whom a request goes to, as far as the shape of a request depends on it.

Owns when an address is a provider's own and when it is a proxy's. Invariant: an
address that is not known to be the provider's own counts as a proxy's, so that what
only the provider understands is never sent to somebody else.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec import Struct

from ..models.profile import ModelProfile
from .traits import Traits

__all__ = ["OPENAI_FAMILY", "Target", "target_of"]

OPENAI_FAMILY = frozenset(("openai", "codex", "azure"))
"""Providers that serve OpenAI's models as OpenAI does."""

_OWN_HOSTS = {
    "openai": ("api.openai.com", "chatgpt.com"),
    "codex": ("api.openai.com", "chatgpt.com"),
    "azure": ("openai.azure.com", "services.ai.azure.com"),
    "anthropic": ("api.anthropic.com",),
}


class Target(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model, where it is asked, and who asks."""

    provider: str
    model: str
    """The name without the provider."""
    api: str = "responses"
    native: bool = False
    """Whether the address is the provider's own."""
    harness: str = "treadle"
    told: tuple[str, ...] | None = None
    """The parameters that the harness can be told; None where the request is ours."""

    @property
    def openai(self) -> bool:
        """Whether OpenAI's rules hold there: its own models, at its own address, asked by us."""
        return self.native and self.provider in OPENAI_FAMILY and self.harness == "treadle"


def target_of(
    profile: ModelProfile,
    *,
    api: str,
    base_url: str = "",
    harness: str = "treadle",
    traits: Traits | None = None,
) -> Target:
    """The target of requests to a model at `base_url`."""
    told = (traits or Traits()).params
    return Target(
        provider=profile.provider,
        model=profile.slug,
        api=api,
        native=_is_own(profile.provider, base_url),
        harness=harness,
        told=None if told is None else tuple(sorted(told)),
    )


def _is_own(provider: str, base_url: str) -> bool:
    try:
        parts = urlsplit(base_url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return False
    own = _OWN_HOSTS.get(provider, ())
    return parts.scheme == "https" and any(
        host == name or host.endswith(f".{name}") for name in own
    )
