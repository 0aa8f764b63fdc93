"""Routing: who may answer a thread's turns, and with whose credentials.

Owns the way from a model's name to candidates, and from a candidate to a connection.
Invariants: a credential goes to its own provider only, and a thread without a credential store
uses what its environment and its settings say, as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, field

from ..core.errors import ConfigError
from ..core.service import Service
from ..models.contract import AuthFailed
from ..models.providers import ProviderConfig, open_model, provider_access, provider_settings
from .auth.accounts import decide_login, payer_of, provider_for_auth
from .auth.credential import AuthError, RouteRefused, profile_of
from .auth.order import candidates_beside_login, candidates_to_try
from .auth.refreshing_model import RefreshingModel
from .failures import UNUSABLE, Failure
from .fallback import Attempt, Chain
from .identity import Identity
from .turn_plan import Authority

if TYPE_CHECKING:
    from ..models.catalog import Catalog
    from ..models.contract import Model
    from .auth.accounts import Login
    from .auth.credential import Profile, Source
    from .auth.credential_store import CredentialStore
    from .turn_plan import HarnessPlan

__all__ = ["Routes"]

_KEYLESS = ProviderConfig(key_required=False)
_ADDRESS = "OPENAI_BASE_URL"


class Routes(Service, kw_only=True):
    """The candidates of one thread."""

    thread: str
    catalog: Catalog
    environ: Mapping[str, str]
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict)
    credentials: CredentialStore | None = None
    """The profiles to choose from; None where only the environment has keys."""
    fallbacks: tuple[str, ...] = ()
    """Models to ask where the one that was asked for does not answer."""
    strict: bool = False
    """The user chose the model: only that one is asked."""
    _chosen: str = ""
    """The profile that a person chose for the thread."""
    _profiles: dict[str, Profile] = field(default_factory=dict)
    """The profiles that were found, by id."""

    async def candidates(self, model: str, *, looking: bool = False) -> Chain:
        """The candidates of a turn that asks for `model`; `looking` lets go of no pin."""
        named = dict.fromkeys(self.catalog.full_name(name) for name in self.fallbacks)
        others = tuple(name for name in named if name != model)
        chain = Chain(models=(model, *others), strict=self.strict)
        return await self.with_profiles(chain, looking=looking)

    async def with_profiles(self, chain: Chain, *, looking: bool = False) -> Chain:
        """`chain` with the profiles of its present model, if it has none yet."""
        if self.credentials is None or chain.profiles:
            return chain
        provider = self._provider(chain.model)
        if self._config_of(provider).key:
            return chain
        own = provider_for_auth(provider)
        payer = own if provider in self.providers else payer_of(provider)
        found = await self.credentials.resolve(
            payer, thread=self.thread, model=chain.model, temporary=looking or chain.at > 0
        )
        self._profiles |= {each.profile.id: each.profile for each in found}
        self._chosen = next((each.profile.id for each in found if each.source == "user"), "")
        worth = candidates_to_try(found) if payer == own else candidates_beside_login(found)
        return chain.with_profiles([each.profile.id for each in worth])

    def connect(self, attempt: Attempt) -> Model:
        """A connection for a candidate. Raises `ConfigError` and `AuthFailed`.

        A credential is asked for before each request, and anew where one was refused.
        """
        if self.credentials is not None and attempt.profile:
            paid = _PaidModel(self, self.credentials, attempt)
            return RefreshingModel(paid.bearer, paid.open)
        try:
            return self._open(attempt.model, self.providers)
        except AuthFailed as error:
            if not self.fallbacks:
                raise
            # Other models may have a key: this one is asked, and fails, in its turn.
            return RefreshingModel(
                partial(_without, str(error)), partial(self.open_with_bearer, attempt.model)
            )

    def keyless(self, model: str) -> Model:
        """A connection that cannot send anything: to see what it would speak."""
        return self.open_with_bearer(model, "")

    def missing(self, model: str) -> str:
        """Why `model` cannot be asked without a profile; empty where it can."""
        provider = self._provider(model)
        try:
            provider_access(provider, provider_settings(provider, self.providers), self.environ)
        except AuthFailed as error:
            return str(error)
        except ConfigError:
            return ""  # those who open it otherwise need no key
        return ""

    async def identity(
        self, attempt: Attempt, harness: HarnessPlan, *, rejected: str = ""
    ) -> Identity:
        """Who a candidate is to its provider, and how `harness` signs in. Raises `AuthError`.

        `rejected` is a bearer that the provider has refused.
        """
        if self.credentials is None or not attempt.profile:
            return Identity()
        credential = await self.credentials.credential(attempt.profile, rejected=rejected)
        login = self._login(attempt.model, profile_of(attempt.profile, credential), harness)
        return Identity(profile=attempt.profile, credential=credential, login=login)

    async def release_profile(self) -> None:
        """The view was compacted or reset, and with it the reason to keep to one profile."""
        if self.credentials is not None:
            await self.credentials.release(self.thread)

    async def note_result(self, attempt: Attempt, failure: Failure | None) -> None:
        """Remember how a candidate's profile fared, unless the credential store knows it first."""
        if self.credentials is None or not attempt.profile:
            return
        if failure is not None and failure.code == UNUSABLE:
            return
        if failure is None:
            await self.credentials.note_success(
                attempt.profile, thread=self.thread, model=attempt.model
            )
        else:
            await self.credentials.note_failure(
                attempt.profile,
                failure.reason,
                model=attempt.model,
                retry_after=failure.retry_after,
            )

    def open_with_bearer(self, model: str, bearer: str) -> Model:
        """`model` with a bearer; without one nothing is sent, and so no key is needed."""
        provider = self._provider(model)
        keyed: dict[str, Any] = {"key": bearer} if bearer else {"key_required": False}
        config = msgspec.structs.replace(self._config_of(provider), **keyed)
        return self._open(model, {**self.providers, provider: config})

    def open_with_account(self, model: str, bearer: str, account: str) -> Model:
        """`model` at the endpoint of a subscription, paid by that account."""
        from .auth.subscription import ACCOUNT_HEADER, subscription_url

        provider = self._provider(model)
        own = self._config_of(provider)
        address = subscription_url(self.address(model))
        headers = {**(own.headers or {}), ACCOUNT_HEADER: account}
        config = msgspec.structs.replace(own, key=bearer, base_url=address, headers=headers)
        # The variable is part of the address already, and would stand over it.
        environ = {name: value for name, value in self.environ.items() if name != _ADDRESS}
        return self._open(model, {**self.providers, provider: config}, environ)

    def _open(
        self,
        model: str,
        config: Mapping[str, ProviderConfig],
        environ: Mapping[str, str] | None = None,
    ) -> Model:
        return open_model(
            model,
            environ=self.environ if environ is None else environ,
            catalog=self.catalog,
            config=config,
        )

    def address(self, model: str) -> str:
        """Where the provider of `model` is; empty where nobody knows yet."""
        provider = self._provider(model)
        settings = provider_settings(provider, self.providers).with_overrides(_KEYLESS)
        try:
            return provider_access(provider, settings, self.environ).base_url
        except ConfigError:
            return ""

    def retries(self, model: str) -> int | None:
        """How often the settings let a step of `model` be asked for again, if they say so."""
        return self._config_of(self._provider(model)).retries

    def authority(self, chain: Chain, harness: HarnessPlan) -> Authority:
        """Who the present candidate is and how `harness` signs in as it, and who could be instead.

        A refused route is told, not raised: another candidate may be allowed.
        """
        present = chain.present.profile
        source: Source | Literal[""] = "user" if present == self._chosen else "auto"
        found = Authority(
            profile=present, source=source if present else "", others=chain.profiles[1:]
        )
        profile = self._profiles.get(present)
        if profile is None:
            return found
        try:
            login = self._login(chain.model, profile, harness)
        except RouteRefused as error:
            return msgspec.structs.replace(found, missing=str(error))
        return msgspec.structs.replace(found, login=login.how if login else "")

    def _login(self, model: str, profile: Profile, harness: HarnessPlan) -> Login | None:
        provider, keeps_login = self._provider(model), harness.traits.keeps_login
        return decide_login(provider, harness.id, profile, keeps_login=keeps_login)

    def _provider(self, model: str) -> str:
        known, _ = self.catalog.split(model)
        return known or self.catalog.profile(model).provider

    def _config_of(self, provider: str) -> ProviderConfig:
        return self.providers.get(provider, ProviderConfig())


class _PaidModel(Struct):
    """A model that a profile pays for, and what its credential says beside the bearer."""

    routes: Routes
    credentials: CredentialStore
    attempt: Attempt
    account: str = ""

    async def bearer(self, *, rejected: str = "") -> str:
        """The bearer for the next request. Raises `AuthError`."""
        from .auth.subscription import (
            find_account,
            is_subscription,
            subscription_account,
            subscription_url,
        )

        profile, address = self.attempt.profile, self.routes.address(self.attempt.model)
        credential = await self.credentials.credential(profile, rejected=rejected)
        if is_subscription(credential):
            # An address of the user's own may know the token without its account.
            own = subscription_url(address) == address
            self.account = find_account(credential)
            if not (own or self.account):
                subscription_account(profile, credential)
        return credential.bearer

    def open(self, bearer: str) -> Model:
        """The model with a bearer, which goes where its kind is taken."""
        if bearer and self.account:
            return self.routes.open_with_account(self.attempt.model, bearer, self.account)
        return self.routes.open_with_bearer(self.attempt.model, bearer)


async def _without(why: str, *, rejected: str = "") -> str:
    """The bearer of nobody."""
    del rejected
    raise AuthError(why)
