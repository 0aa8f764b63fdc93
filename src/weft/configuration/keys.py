"""Keys: one per provider, kept for the user.

Owns ``<home>/auth.json``. Invariant: a value goes to the model's connection and nowhere
else; it is in no message, no `repr` and no variable that commands inherit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct, field

from ..errors import ConfigError
from .private import read_private, write_private
from .settings import ProviderSettings

__all__ = ["KeyFile", "key_variable"]


class _Keys(Struct, kw_only=True):
    version: int = 1
    keys: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"_Keys({sorted(self.keys)!r})"


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The keys of one home."""

    home: Path

    @property
    def path(self) -> Path:
        """Where they are."""
        return self.home / "auth.json"

    @property
    def providers(self) -> tuple[str, ...]:
        """Whose keys are kept."""
        return tuple(sorted(self._read().keys))

    def put(self, provider: str, key: str) -> None:
        """Keep `key`, in the place of an older one. Raises `ConfigError`."""
        cleaned = key.strip()
        if not cleaned or not cleaned.isascii() or not cleaned.isprintable() or " " in cleaned:
            raise ConfigError(
                f"that is no key for {provider!r}: it is empty or has characters no key has; "
                "copy it again"
            )
        kept = self._read()
        kept.keys[provider] = cleaned
        write_private(self.path, kept)

    def remove(self, provider: str) -> bool:
        """Forget the key of `provider`; whether there was one."""
        kept = self._read()
        was = kept.keys.pop(provider, None) is not None
        if was:
            write_private(self.path, kept)
        return was

    def over(
        self, environ: Mapping[str, str], providers: Mapping[str, ProviderSettings]
    ) -> dict[str, str]:
        """`environ` with the keys in it that it lacks; what is set there comes first."""
        overlay = dict(environ)
        for provider, key in self._read().keys.items():
            variable = key_variable(provider, providers)
            if not overlay.get(variable):
                overlay[variable] = key
        return overlay

    def _read(self) -> _Keys:
        self._check_mode()
        return read_private(self.path, _Keys)

    def _check_mode(self) -> None:
        try:
            mode = self.path.stat().st_mode
        except OSError:
            return
        if mode & 0o077:
            raise ConfigError(
                f"{str(self.path)!r} can be read by others; `chmod 600` it, and think of its keys "
                "as known"
            )


def key_variable(provider: str, providers: Mapping[str, ProviderSettings]) -> str:
    """The variable in which the key of `provider` is looked for."""
    configured = providers.get(provider, ProviderSettings()).key_variable
    if isinstance(configured, str):
        return configured
    return f"{provider.upper().replace('-', '_')}_API_KEY"
