"""Routing: who may answer a thread's turns, and with whose credentials.

Owns the way from a model's name to candidates, and from a candidate to a connection.
Invariants: a credential goes to its own provider only, and a thread without a wallet
uses what its environment and its settings say, as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from .models.connect import ProviderConfig
from .plan.failures import Failure
from .plan.fallback import Attempt, Chain

if TYPE_CHECKING:
    from .auth.wallet import Wallet
    from .models.catalog import Catalog
    from .models.contract import Model

__all__ = ["Routes"]


@dataclass(slots=True, kw_only=True)
class Routes:
    """The candidates of one thread."""

    thread: str
    catalog: Catalog
    environ: Mapping[str, str] = field(repr=False)
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict, repr=False)
    wallet: Wallet | None = None
    """The profiles to choose from; None where only the environment has keys."""
    fallbacks: tuple[str, ...] = ()
    """Models to ask where the one that was asked for does not answer."""
    strict: bool = False
    """The user chose the model: only that one is asked."""

    async def begin(self, model: str) -> Chain:
        """The candidates of a turn that asks for `model`."""
        others = tuple(name for name in dict.fromkeys(self.fallbacks) if name != model)
        return await self.ready(Chain(models=(model, *others), strict=self.strict))

    async def ready(self, chain: Chain) -> Chain:
        """`chain` with the profiles of its present model, if it has none yet."""
        if self.wallet is None or chain.profiles:
            return chain
        from .auth.order import attempts

        provider = self._provider(chain.model)
        if self._configured(provider).key:
            return chain
        found = await self.wallet.resolve(
            provider, thread=self.thread, model=chain.model, temporary=chain.at > 0
        )
        return chain.with_profiles([each.profile.id for each in attempts(found)])

    async def connected(self, attempt: Attempt) -> Model:
        """A connection for a candidate. Raises `ConfigError`, `AuthFailed`, `AuthError`."""
        from .models.providers import open_model

        return open_model(
            attempt.model,
            environ=self.environ,
            catalog=self.catalog,
            config=await self.keyed(attempt),
        )

    async def keyed(self, attempt: Attempt) -> Mapping[str, ProviderConfig]:
        """The providers, with the credential of a candidate's profile for its own."""
        if self.wallet is None or not attempt.profile:
            return self.providers
        provider = self._provider(attempt.model)
        credential = await self.wallet.credential(attempt.profile)
        keyed = msgspec.structs.replace(self._configured(provider), key=credential.bearer)
        return {**self.providers, provider: keyed}

    async def note(self, attempt: Attempt, failure: Failure | None) -> None:
        """Remember how a candidate's profile fared."""
        if self.wallet is None or not attempt.profile:
            return
        if failure is None:
            await self.wallet.note_success(attempt.profile, thread=self.thread, model=attempt.model)
        else:
            await self.wallet.note_failure(
                attempt.profile,
                failure.reason,
                model=attempt.model,
                retry_after=failure.retry_after,
            )

    def _provider(self, model: str) -> str:
        known, _ = self.catalog.split(model)
        return known or self.catalog.profile(model).provider

    def _configured(self, provider: str) -> ProviderConfig:
        return self.providers.get(provider, ProviderConfig())
