"""The wallet: all that a turn has to do with profiles.

Owns the way from a provider to a credential and back to its health. Invariants: a secret
is handed out only for the provider it belongs to; and trouble with what is remembered
about profiles is logged and never fails a turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import replace

from ...config.keys import key_variable
from ...core.errors import StoreError
from ...core.redact import add_secrets
from ...core.service import Service, later
from . import health as rules
from .aliases import provider_for_auth
from .errors import AuthError, ProfileUnusable
from .health import Health, Reason, obstacle
from .order import Candidate, Pin, Wishes, candidates, pin_holds, pin_moves
from .profile import ENVIRONMENT, ApiKey, Credential, Profile, profile_id, provider_in
from .secrets import SecretStore
from .state import AuthState, Clock, Remembered, now
from .vault import FindVault, Vault, find_vault

if TYPE_CHECKING:
    from ...models.transport import Transport
    from .oauth import Refresher

__all__ = ["Wallet"]

_log = logging.getLogger(__name__)


def _usual_variable(provider: str) -> str:
    return key_variable(provider, {})


class Wallet(Service):
    """The profiles of one home, as turns use them; safe in any number of processes."""

    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Configured orders: ids of profiles by provider."""
    variable: Callable[[str], str] = _usual_variable
    """In which variable the key of a provider is looked for."""
    vault: Vault | FindVault | None = find_vault
    """The keyring, or how to look for one."""
    transport: Callable[[], Transport] | None = None
    clock: Clock = now
    secrets: SecretStore = later()
    state: AuthState = later()
    _refresher: Refresher | None = None

    def __post_init__(self) -> None:
        self.secrets = SecretStore(self.home, self.vault)
        self.state = AuthState(self.home, self.clock)

    def profiles(self, provider: str = "") -> tuple[Profile, ...]:
        """Every profile of `provider`, the one in the environment included; of all without one."""
        stored = self.secrets.profiles()
        wanted = provider_for_auth(provider)
        named = {wanted} if provider else {each.provider for each in stored}
        found = [profile for each in sorted(named) if (profile := self._in_environment(each))]
        found += [each for each in stored if not provider or _is_of(each, wanted)]
        return tuple(found)

    async def resolve(
        self, provider: str, *, thread: str = "", model: str = "", temporary: bool = False
    ) -> tuple[Candidate, ...]:
        """The profiles to try for `provider`, in order. Raises `AuthError`.

        A pin of the thread's whose profile is gone, or that is for another provider, is
        let go, unless the thread is only `temporary` with this provider.
        """
        return await asyncio.to_thread(self._resolved, provider, thread, model, temporary)

    async def credential(self, profile: str, *, rejected: str = "") -> Credential:
        """The secret of `profile`, good for the next request. Raises `ProfileUnusable`.

        Ask before every request: a pair of tokens that is about to end is refreshed first.
        `rejected` is a bearer that the provider has just refused.
        """
        if profile == profile_id(provider_in(profile), ENVIRONMENT):
            return self._from_environment(provider_in(profile), profile)
        try:
            return await self._refreshing().fresh(profile, rejected=rejected)
        except ProfileUnusable as error:
            await self.note_failure(profile, "auth_permanent" if error.permanent else "auth")
            raise

    def _refreshing(self) -> Refresher:
        from .oauth import Refresher

        if self._refresher is None:
            transport = self.transport or self._dialled
            self._refresher = Refresher(self.secrets, transport, self.clock)
        return self._refresher

    async def note_success(
        self, profile: str, *, thread: str = "", model: str = "", began: int | None = None
    ) -> None:
        """A request that was sent with `profile` at `began` was answered."""
        await asyncio.to_thread(self._succeeded, profile, thread, model, began)

    async def note_failure(
        self, profile: str, reason: Reason, *, model: str = "", retry_after: float | None = None
    ) -> Health:
        """A request failed; `retry_after` are the seconds until a limit resets, if known."""
        return await asyncio.to_thread(self._failed, profile, reason, model, retry_after)

    async def pin(self, thread: str, profile: str) -> Pin:
        """Let `thread` keep to `profile` until it is let go. Raises `AuthError`."""
        return await asyncio.to_thread(self.pin_now, thread, profile)

    def pin_now(self, thread: str, profile: str) -> Pin:
        """`pin`, for those who may block."""
        provider = provider_for_auth(provider_in(profile))
        if profile not in {each.id for each in self.profiles(provider)}:
            raise AuthError(
                f"there is no profile {profile!r}; `treadle auth` lists those there are"
            )
        pin = Pin(thread=thread, provider=provider, profile=profile, source="user")
        self.state.set_pin(pin)
        return pin

    async def release(self, thread: str) -> None:
        """Let go of a pin that nobody chose: its cache is cold after a reset or compaction."""
        with _remembering():
            await asyncio.to_thread(self.state.unpin, thread, source="auto")

    def _resolved(
        self, provider: str, thread: str, model: str, temporary: bool
    ) -> tuple[Candidate, ...]:
        wanted = provider_for_auth(provider)
        profiles = self.profiles(wanted)
        known = Remembered()
        with _remembering():
            known = self.state.remembered(wanted, thread)
            if known.pin and not pin_holds(known.pin, wanted, profiles):
                if not temporary:
                    self.state.unpin(thread, only=known.pin)
                known = replace(known, pin=None)
        return candidates(
            profiles,
            health=known.health,
            now=self.clock(),
            model=model,
            wishes=Wishes(stored=known.order, configured=self.orders.get(wanted, ())),
            pin=known.pin,
        )

    def _succeeded(self, profile: str, thread: str, model: str, began: int | None) -> None:
        with _remembering():
            at = self.clock()
            self.state.used(
                profile, lambda before: rules.succeeded(before, at, model=model, began=began)
            )
            if thread:
                self._keep_to(profile, thread, at)

    def _keep_to(self, profile: str, thread: str, at: int) -> None:
        provider = provider_for_auth(provider_in(profile))
        pin = self.state.pin(thread)
        if pin is not None and pin.provider != provider:
            return
        held = obstacle(self.state.health().get(pin.profile, Health()), at) if pin else None
        if pin_moves(pin, profile, held):
            self.state.set_pin(Pin(thread=thread, provider=provider, profile=profile))

    def _failed(
        self, profile: str, reason: Reason, model: str, retry_after: float | None
    ) -> Health:
        at = self.clock()
        try:
            return self.state.change(
                profile,
                lambda before: rules.failed(
                    before, reason, at, model=model, retry_after=retry_after
                ),
            )
        except StoreError as error:
            _forgotten(error)
            return Health()

    def _in_environment(self, provider: str) -> Profile | None:
        if not self.environ.get(self.variable(provider), "").strip():
            return None
        return Profile(
            id=profile_id(provider, ENVIRONMENT),
            provider=provider,
            kind="api_key",
            place="environment",
            label=self.variable(provider),
        )

    def _from_environment(self, provider: str, profile: str) -> ApiKey:
        variable = self.variable(provider)
        key = self.environ.get(variable, "").strip()
        if not key:
            raise ProfileUnusable(profile, f"{variable} is not set; set it", permanent=True)
        add_secrets(key)
        return ApiKey(provider=provider, key=key)

    def _dialled(self) -> Transport:
        from ...models.transport import AsyncTransport

        return AsyncTransport.from_environment(self.environ)


def _is_of(profile: Profile, provider: str) -> bool:
    return provider_for_auth(profile.provider) == provider


@contextmanager
def _remembering() -> Iterator[None]:
    """What goes wrong with what is remembered is told in the log, and nowhere else."""
    try:
        yield
    except StoreError as error:
        _forgotten(error)


def _forgotten(error: StoreError) -> None:
    _log.warning("the health of profiles cannot be kept or read: %s", error)
