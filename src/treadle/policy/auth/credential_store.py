"""The credential store: profiles, their secrets and their health, as turns use them.

Owns the way from a provider to a credential, and how its use changes the profile's health.
Invariants: a secret is handed out only for the provider it belongs to; and a failure to
read or store the health of profiles is logged and never fails a turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...config.settings import key_variable
from ...core.errors import StoreError
from ...core.redact import add_secrets
from ...models.transport import AsyncTransport
from .accounts import provider_for_auth
from .auth_state import AuthState, Clock, ProfileFacts, now
from .cooldowns import ProfileHealth, Reason, after_failure, after_success, obstacle
from .credential import (
    ENVIRONMENT,
    ApiKey,
    AuthError,
    Credential,
    Profile,
    ProfileUnusable,
    profile_id,
    provider_in,
)
from .keyring import FindKeyring, Keyring, find_keyring
from .order import Pin, ProfileCandidate, can_move_pin, candidates, is_valid_pin
from .secrets import SecretStore

if TYPE_CHECKING:
    from ...models.transport import Transport
    from .oauth import Refresher

__all__ = ["CredentialStore"]

_log = logging.getLogger(__name__)
_STATE_FAILED = "the health of profiles cannot be stored or read: %s"


class CredentialStore:
    """The profiles of one home; safe in any number of processes.

    `orders` are the configured orders, profile ids by provider; `variable` names the
    environment variable of a provider's key; `keyring` is the keyring, or how to look for one.
    """

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str] | None = None,
        *,
        orders: Mapping[str, tuple[str, ...]] | None = None,
        variable: Callable[[str], str] = lambda provider: key_variable(provider, {}),
        keyring: Keyring | FindKeyring | None = find_keyring,
        transport: Callable[[], Transport] | None = None,
        clock: Clock = now,
    ) -> None:
        self.secrets = SecretStore(home, keyring)
        self.state = AuthState(home, clock)
        self.variable = variable
        self.clock = clock
        self._environ = environ or {}
        self._orders = orders or {}
        self._transport = transport or self._open_transport
        self._refresher: Refresher | None = None

    def profiles(self, provider: str = "") -> tuple[Profile, ...]:
        """Return every profile of `provider`, or of all; the one in the environment included."""
        stored = self.secrets.profiles()
        wanted = provider_for_auth(provider)
        names = {wanted} if provider else {each.provider for each in stored}
        found = [profile for each in sorted(names) if (profile := self._environment_profile(each))]
        found += [
            each for each in stored if not provider or provider_for_auth(each.provider) == wanted
        ]
        return tuple(found)

    async def resolve(
        self, provider: str, *, thread: str = "", model: str = "", temporary: bool = False
    ) -> tuple[ProfileCandidate, ...]:
        """Return the profiles to try for `provider`, in order. Raises `AuthError`.

        A pin of the thread whose profile is gone, or that is for another provider, is
        deleted, unless the thread uses this provider only for a while (`temporary`).
        """
        return await asyncio.to_thread(self._resolve, provider, thread, model, temporary)

    async def credential(self, profile: str, *, rejected: str = "") -> Credential:
        """Return the secret of `profile`, valid for the next request. Raises `ProfileUnusable`.

        Call it before every request: a pair of tokens that is about to expire is refreshed
        first. `rejected` is a bearer that the provider has just refused.
        """
        if profile == profile_id(provider_in(profile), ENVIRONMENT):
            return self._environment_key(provider_in(profile), profile)
        try:
            return await self._get_refresher().fresh(profile, rejected=rejected)
        except ProfileUnusable as error:
            await self.note_failure(profile, "auth_permanent" if error.permanent else "auth")
            raise

    async def note_success(
        self, profile: str, *, thread: str = "", model: str = "", began: int | None = None
    ) -> None:
        """Record that a request that was sent with `profile` at `began` was answered."""
        await asyncio.to_thread(self._record_success, profile, thread, model, began)

    async def note_failure(
        self, profile: str, reason: Reason, *, model: str = "", retry_after: float | None = None
    ) -> ProfileHealth:
        """Record that a request failed; `retry_after` is the seconds until a limit resets."""
        return await asyncio.to_thread(self._record_failure, profile, reason, model, retry_after)

    async def pin(self, thread: str, profile: str) -> Pin:
        """Pin `thread` to `profile`, as its user chose. Raises `AuthError`."""
        return await asyncio.to_thread(self.pin_now, thread, profile)

    def pin_now(self, thread: str, profile: str) -> Pin:
        """Do what `pin` does, and block."""
        provider = provider_for_auth(provider_in(profile))
        if profile not in {each.id for each in self.profiles(provider)}:
            raise AuthError(f"there is no profile {profile!r}; `treadle auth` lists them")
        pin = Pin(thread=thread, provider=provider, profile=profile, source="user")
        self.state.set_pin(pin)
        return pin

    async def release(self, thread: str) -> None:
        """Delete a pin that nobody chose: its cache is cold after a reset or compaction."""
        with _log_store_errors():
            await asyncio.to_thread(self.state.unpin, thread, source="auto")

    def _resolve(
        self, provider: str, thread: str, model: str, temporary: bool
    ) -> tuple[ProfileCandidate, ...]:
        wanted = provider_for_auth(provider)
        profiles = self.profiles(wanted)
        known = ProfileFacts()
        with _log_store_errors():
            known = self.state.load(wanted, thread)
            if known.pin and not is_valid_pin(known.pin, wanted, profiles):
                if not temporary:
                    self.state.unpin(thread, only=known.pin)
                known = replace(known, pin=None)
        return candidates(
            profiles,
            health=known.health,
            now=self.clock(),
            model=model,
            orders=(known.order, self._orders.get(wanted, ())),
            pin=known.pin,
        )

    def _record_success(self, profile: str, thread: str, model: str, began: int | None) -> None:
        with _log_store_errors():
            at = self.clock()
            self.state.mark_used(
                profile, lambda before: after_success(before, at, model=model, began=began)
            )
            if thread:
                self._pin_after_success(profile, thread, at)

    def _pin_after_success(self, profile: str, thread: str, at: int) -> None:
        provider = provider_for_auth(provider_in(profile))
        pin = self.state.pin(thread)
        if pin is not None and pin.provider != provider:
            return
        health = self.state.health().get(pin.profile, ProfileHealth()) if pin else None
        if can_move_pin(pin, profile, obstacle(health, at) if health else None):
            self.state.set_pin(Pin(thread=thread, provider=provider, profile=profile))

    def _record_failure(
        self, profile: str, reason: Reason, model: str, retry_after: float | None
    ) -> ProfileHealth:
        at = self.clock()

        def step(before: ProfileHealth) -> ProfileHealth:
            return after_failure(before, reason, at, model=model, retry_after=retry_after)

        try:
            return self.state.update_health(profile, step)
        except StoreError as error:
            _log.warning(_STATE_FAILED, error)
            return ProfileHealth()

    def _environment_profile(self, provider: str) -> Profile | None:
        if not self._environ.get(self.variable(provider), "").strip():
            return None
        return Profile(
            id=profile_id(provider, ENVIRONMENT),
            provider=provider,
            kind="api_key",
            place="environment",
            label=self.variable(provider),
        )

    def _environment_key(self, provider: str, profile: str) -> ApiKey:
        variable = self.variable(provider)
        key = self._environ.get(variable, "").strip()
        if not key:
            raise ProfileUnusable(profile, f"{variable} is not set; set it", permanent=True)
        add_secrets(key)
        return ApiKey(provider=provider, key=key)

    def _get_refresher(self) -> Refresher:
        from .oauth import Refresher

        if self._refresher is None:
            self._refresher = Refresher(self.secrets, self._transport, self.clock)
        return self._refresher

    def _open_transport(self) -> Transport:
        return AsyncTransport.from_environment(self._environ)


@contextmanager
def _log_store_errors() -> Iterator[None]:
    """Log errors of the store that the state is in, and go on."""
    try:
        yield
    except StoreError as error:
        _log.warning(_STATE_FAILED, error)
