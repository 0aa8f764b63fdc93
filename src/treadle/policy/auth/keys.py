"""Keys for those who only know variables: one per provider, as if it were set.

Invariant: a value goes to the model's connection and nowhere else; it is in no message,
no `repr` and no variable that commands inherit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...config.keys import key_variable
from ...config.settings import ProviderSettings
from .errors import AuthError
from .profile import DEFAULT, ApiKey, Profile, profile_id
from .secrets import SecretStore

__all__ = ["KeyFile"]


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The api keys of one home, one for each provider."""

    home: Path

    @property
    def path(self) -> Path:
        """Where they are."""
        return SecretStore(self.home).path

    @property
    def providers(self) -> tuple[str, ...]:
        """Whose keys are kept."""
        return tuple(sorted(self._preferred()))

    def put(self, provider: str, key: str) -> None:
        """Keep `key` as the provider's own, in the place of an older one. Raises `AuthError`."""
        credential = ApiKey(provider=provider, key=key.strip())
        SecretStore(self.home).put(profile_id(provider), credential)

    def remove(self, provider: str) -> bool:
        """Forget the key of `provider`; whether there was one."""
        return SecretStore(self.home).remove(profile_id(provider))

    def over(
        self, environ: Mapping[str, str], providers: Mapping[str, ProviderSettings]
    ) -> dict[str, str]:
        """`environ` with the keys in it that it lacks; what is set there comes first."""
        overlay = dict(environ)
        store = SecretStore(self.home)
        for provider, profile in self._preferred().items():
            variable = key_variable(provider, providers)
            if not overlay.get(variable) and (key := _key(store, profile)):
                overlay[variable] = key
        return overlay

    def _preferred(self) -> dict[str, Profile]:
        """For each provider its default key, else the first by name."""
        keys = [p for p in SecretStore(self.home).profiles() if p.kind == "api_key"]
        keys.sort(key=lambda profile: (not profile.id.endswith(f":{DEFAULT}"), profile.id))
        return {profile.provider: profile for profile in reversed(keys)}


def _key(store: SecretStore, profile: Profile) -> str:
    """The key; none while a keyring keeps it to itself, for another way may be open."""
    try:
        return store.get(profile.id).bearer
    except AuthError:
        if profile.place == "file":
            raise
        return ""
