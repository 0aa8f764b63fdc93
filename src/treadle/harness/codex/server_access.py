"""How an app-server reaches the provider of a thread, and who pays.

Owns a provider's settings in Codex's terms and the login of the server. From 0.166 on a
process runs turns of one provider id only, but each thread may define that id: so all
routes have the same id, and one process serves all of them. Invariants: a route names the
variables of its secrets and contains no secret; a profile is used for its own provider
only; a server in the user's home keeps its login; tokens stay in the server's memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from ...core.errors import ConfigError
from ...models.providers import (
    ProviderAccess,
    ProviderConfig,
    provider_access,
    provider_settings,
)
from ...policy.auth.credential import ProfileUnusable
from ...policy.auth.subscription import (
    ACCOUNT_PROVIDER,
    is_subscription,
    subscription_account,
    subscription_url,
)
from ..contract import Identity
from .protocol.client_requests import LoginAccount

__all__ = [
    "PROVIDER",
    "AccountTokens",
    "ProviderRoute",
    "ServerAccess",
    "server_access",
]

PROVIDER = "treadle"
"""The one provider id of all threads of Treadle's."""

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
    """How often a response is asked for again; None for the server's default."""
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
            # One layer of retries: with both, a lasting failure costs thirty requests.
            "request_max_retries": 0,
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
) -> ServerAccess:
    """Return how a server reaches `provider`. Raises `ConfigError` (`AuthError`), `AuthFailed`."""
    login = identity.login
    if login is None and identity.credential is not None:
        why = "nobody has decided how Codex signs in with it"
        raise ProfileUnusable(identity.profile, why, permanent=False)
    unrouted = provider == _OWN and provider not in providers
    native = unrouted if login is None else login.how == "native"
    if native:
        return ServerAccess(route=None)
    # With a profile, models of Codex's own are requested from the profile's provider.
    target = ACCOUNT_PROVIDER if unrouted else provider
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
    if settings.client_certificate or settings.ca_file:
        raise ConfigError(
            f"Codex cannot use the certificates of the provider {provider!r}; name authorities "
            "in SSL_CERT_FILE, or use the harness 'treadle' for it"
        )
    secrets = {found.key_variable: found.key} if found.key and account is None else {}
    env_headers = dict(found.env_headers)
    if secrets and found.key_header:
        env_headers[found.key_header] = found.key_variable
    secrets |= {name: environ[name] for name in found.env_headers.values() if environ.get(name)}
    route = ProviderRoute(
        provider=provider,
        base_url=subscription_url(found.base_url) if account else found.base_url,
        env_key=found.key_variable if _is_bearer(found) and account is None else None,
        uses_account=account is not None,
        headers=found.headers,
        env_headers=env_headers,
        query_params=found.query_params,
        retries=found.retries,
        idle_seconds=found.idle_timeout,
    )
    return ServerAccess(route=route, secrets=secrets, account=account)


def _is_bearer(found: ProviderAccess) -> bool:
    return bool(found.key) and not found.key_header


def _account_tokens(identity: Identity) -> AccountTokens | None:
    """Return the tokens to log in with, if the profile has some. Raises `ProfileUnusable`."""
    credential = identity.credential
    if credential is None or not is_subscription(credential):
        return None
    account = subscription_account(identity.profile, credential)
    return AccountTokens(profile=identity.profile, token=credential.bearer, account=account)
