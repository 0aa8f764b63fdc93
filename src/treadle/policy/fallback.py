"""Fallback: which candidate is tried next, and what is remembered of those before.

Owns the chain over models and profiles as a pure machine: other profiles of a provider
first, as far as they may help, then the next model. Invariants: no candidate is tried
twice in a turn, every attempt is recorded, and the last error is never hidden.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from .auth.cooldowns import Reason
from .auth.order import can_rotate
from .outcome import Fallback

__all__ = ["Attempt", "Chain", "Tried"]


class Attempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One candidate: a model, and who we are to its provider."""

    model: str
    profile: str = ""
    """Empty where nobody has to be anybody."""
    final: bool = False
    """Nothing is tried after it."""


class Tried(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt that came to nothing, as it is recorded."""

    model: str
    profile: str = ""
    reason: Reason
    code: str = ""
    error: str = ""


class Chain(Struct, frozen=True, kw_only=True):
    """Where a turn stands among its candidates."""

    models: tuple[str, ...]
    """The model that was asked for, then those to fall back to."""
    strict: bool = False
    """The user chose the model: no other is tried for it."""
    at: int = 0
    rotations: int = 0
    profiles: tuple[str, ...] = ()
    """The profiles of the present model's provider that are left, the present one first."""
    tried: tuple[Tried, ...] = ()

    @property
    def model(self) -> str:
        """The present model."""
        return self.models[self.at]

    @property
    def present(self) -> Attempt:
        """The candidate whose turn it is."""
        profile = self.profiles[0] if self.profiles else ""
        return Attempt(model=self.model, profile=profile, final=self._is_last)

    @property
    def _is_last(self) -> bool:
        return len(self.profiles) <= 1 and (self.strict or self.at + 1 >= len(self.models))

    def with_profiles(self, profiles: Sequence[str]) -> Chain:
        """The chain once the profiles of its model are known."""
        return msgspec.structs.replace(self, profiles=tuple(profiles), rotations=0)

    def after(self, verdict: Fallback) -> Chain | None:
        """The chain at its next candidate; None when there is none.

        At another model its profiles are to be asked for: see `with_profiles`.
        """
        noted = msgspec.structs.replace(self, tried=(*self.tried, self._record(verdict)))
        if len(self.profiles) > 1 and can_rotate(verdict.reason, self.rotations):
            rest, rotated = self.profiles[1:], self.rotations + 1
            return msgspec.structs.replace(noted, profiles=rest, rotations=rotated)
        if self.strict or self.at + 1 >= len(self.models):
            return None
        return msgspec.structs.replace(noted, at=self.at + 1, profiles=(), rotations=0)

    def tried_after(self, verdict: Fallback) -> tuple[Tried, ...]:
        """All that was tried, the last attempt included."""
        return (*self.tried, self._record(verdict))

    def _record(self, verdict: Fallback) -> Tried:
        present = self.present
        return Tried(
            model=present.model,
            profile=present.profile,
            reason=verdict.reason,
            code=verdict.code,
            error=verdict.message,
        )
