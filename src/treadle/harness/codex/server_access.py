"""How an app-server reaches the provider of a thread, and who pays.

Owns a provider's settings in Codex's terms and the login of the server. From 0.166 on a
process runs turns of one provider id only, but each thread may define that id: so all
routes have the same id, and one process serves all of them. Invariants: a route names the
variables of its secrets and contains no secret; a profile is used for its own provider
only; a server in the user's home keeps its login; tokens stay in the server's memory.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from ...core.errors import ConfigError
from ...core.typed import decode_json
from ...models.providers import ProviderConfig, provider_access, provider_settings
from ...policy.auth.accounts import (
    Login,
    forwarding,
    harness_login,
    provider_for_auth,
    requirement_of,
)
from ...policy.auth.credential import Credential, OAuth, ProfileUnusable, Token, profile_of
from ...policy.auth.order import ProfileCandidate
from ..contract import Identity
from .options import HARNESS
from .protocol.client_requests import LoginAccount

__all__ = [
    "PROVIDER",
    "SUBSCRIPTION_URL",
    "AccountTokens",
    "ProviderRoute",
    "ServerAccess",
    "server_access",
]

PROVIDER = "treadle"
"""The one provider id of all threads of Treadle's."""

SUBSCRIPTION_URL = "https://chatgpt.com/backend-api/codex"
"""The endpoint of an OpenAI subscription, unless the settings name another one."""

_ACCOUNT_PROVIDER = "openai"
"""The provider whose tokens log a server in; other providers take a token as a key."""

_OWN = "codex"
"""The provider that only the user's own Codex can reach."""


class ProviderRoute(Struct, frozen=True, kw_only=True):
    """The definition of a Responses provider for a thread.

    `env_key` names the variable of the bearer token, `env_headers` those of headers.
    The name ``OpenAI`` would switch on the server's remote compaction.
    """

    provider: str
    base_url: str
    name: str = ""
    env_key: str | None = None
    uses_account: bool = False
    """Whether the account pays with which the server is logged in."""
    headers: dict[str, str] = {}
    env_headers: dict[str, str] = {}
    query_params: dict[str, str] = {}
    retries: int | None = None
    """Retries of a request and of a stream; None for the server's default."""
    idle_seconds: float | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names of the variables of its secrets."""
        key = () if self.env_key is None else (self.env_key,)
        return (*key, *self.env_headers.values())

    def config(self) -> dict[str, Any]:
        """Return the `config` with which a thread is started, resumed or forked."""
        settings: dict[str, Any] = {
            "name": self.name or self.provider,
            "base_url": self.base_url,
            "wire_api": "responses",
            "requires_openai_auth": self.uses_account,
            "supports_websockets": False,
            "env_key": self.env_key,
            "http_headers": self.headers or None,
            "env_http_headers": self.env_headers or None,
            "query_params": self.query_params or None,
            "request_max_retries": self.retries,
            "stream_max_retries": self.retries,
            "stream_idle_timeout_ms": self.idle_seconds and int(self.idle_seconds * 1000),
        }
        known = {name: value for name, value in settings.items() if value is not None}
        return {f"model_providers.{PROVIDER}": known}


class AccountTokens(Struct, frozen=True, kw_only=True):
    """The tokens of one profile, with which a server logs in."""

    profile: str
    token: str
    account: str

    @property
    def login_request(self) -> LoginAccount:
        """Return the request that logs the server in."""
        return LoginAccount(access_token=self.token, chatgpt_account_id=self.account)

    def __repr__(self) -> str:
        return f"AccountTokens({self.profile!r})"


class ServerAccess(Struct, frozen=True, kw_only=True):
    """How a server reaches a provider: by a route of Treadle's, or as the user's Codex does."""

    route: ProviderRoute | None
    secrets: Mapping[str, str] = {}
    account: AccountTokens | None = None
    """The account with which the process must be logged in."""

    @property
    def payer(self) -> str:
        """Return a key for who pays; threads with different payers share no process."""
        if self.account is not None:
            return self.account.profile
        secrets = "\0".join(f"{name}={value}" for name, value in sorted(self.secrets.items()))
        return hashlib.sha256(secrets.encode()).hexdigest() if secrets else ""

    def __repr__(self) -> str:
        return f"ServerAccess({self.route!r})"


def server_access(
    provider: str,
    identity: Identity,
    *,
    providers: Mapping[str, ProviderConfig],
    environ: Mapping[str, str],
    private_home: bool,
) -> ServerAccess:
    """Return how a server reaches `provider`. Raises `ConfigError` (`AuthError`), `AuthFailed`."""
    login = _login(provider, identity, private_home=private_home)
    unrouted = provider == _OWN and provider not in providers
    native = unrouted if login is None else login.how == "native"
    if native:
        return ServerAccess(route=None)
    # With a profile, models of Codex's own are requested from the profile's provider.
    target = _ACCOUNT_PROVIDER if unrouted else provider
    settings = provider_settings(target, providers)
    if target == _OWN:
        settings = ProviderConfig(api="responses").with_overrides(settings)
    account = _account_tokens(identity) if login is not None else None
    if account is not None:
        settings = structs.replace(settings, key_required=False)
    elif identity.credential is not None:
        settings = structs.replace(settings, key=identity.credential.bearer)
    found = provider_access(target, settings, environ)
    if found.api != "responses":
        raise ConfigError(
            f"Codex needs the Responses API, which the provider "
            f"{provider!r} does not speak; use the harness 'treadle' for it"
        )
    secrets = {found.key_variable: found.key} if found.key and account is None else {}
    route = ProviderRoute(
        provider=provider,
        base_url=_subscription_url(found.base_url) if account else found.base_url,
        env_key=found.key_variable if secrets else None,
        uses_account=account is not None,
        headers=found.headers,
        retries=found.retries,
        idle_seconds=found.idle_timeout,
    )
    return ServerAccess(route=route, secrets=secrets, account=account)


def _login(provider: str, identity: Identity, *, private_home: bool) -> Login | None:
    """Return how a server logs in for `provider`; None without a credential.

    Raises `RouteRefused`.
    """
    if identity.credential is None:
        return None
    profile = profile_of(identity.profile, identity.credential)
    plan = forwarding(provider, HARNESS, (ProfileCandidate(profile=profile),))
    # Models of Codex's own belong to a subscription.
    wanted = "subscription" if provider == HARNESS else requirement_of(profile.kind)
    # A key is no login: a variable passes it on, and the user's own login stays as it is.
    own = private_home or wanted == "api-key"
    return harness_login(wanted, plan, (profile,), own_home=own)


def _account_tokens(identity: Identity) -> AccountTokens | None:
    """Return the tokens to log in with, if the profile has some. Raises `ProfileUnusable`."""
    credential = identity.credential
    if not isinstance(credential, OAuth | Token):
        return None
    if provider_for_auth(credential.provider) != _ACCOUNT_PROVIDER:
        return None
    account = credential.account_id or _account_in(credential)
    if not account:
        why = "its token names no account; add it again with its `account_id`"
        raise ProfileUnusable(identity.profile, why, permanent=True)
    return AccountTokens(profile=identity.profile, token=credential.bearer, account=account)


class _Auth(Struct, frozen=True):
    chatgpt_account_id: str = ""


class _Claims(Struct, frozen=True):
    auth: _Auth = field(name="https://api.openai.com/auth", default_factory=_Auth)


def _account_in(credential: Credential) -> str:
    """Return the account in the claims of a token; empty if there is none."""
    middle = [*credential.bearer.split("."), "", ""][1]
    try:
        data = base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4))
        return decode_json(data, _Claims).auth.chatgpt_account_id
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        return ""


def _subscription_url(base_url: str) -> str:
    """Return the endpoint of a subscription: the one in the settings, else its own."""
    usual = provider_settings("openai").base_url
    return SUBSCRIPTION_URL if base_url == usual else base_url
