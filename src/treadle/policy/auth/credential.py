"""Profiles and credentials as values, and the errors of both.

AuthError                the secrets or the state of profiles cannot be used as they are
├── ProfileUnusable      one profile: `.profile`, and `.permanent` when waiting does not help
└── RouteRefused         no profile may be used for a route; nothing was started

Owns the shape of profiles and credentials, on disk too. Invariant: a `Profile` and an
error hold no secret, and the `repr` of a credential shows none.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from ...core.errors import ConfigError

__all__ = [
    "DEFAULT",
    "ENVIRONMENT",
    "LATEST",
    "ApiKey",
    "AuthError",
    "Credential",
    "Kind",
    "OAuth",
    "Place",
    "Profile",
    "ProfileUnusable",
    "RouteRefused",
    "ServerLogin",
    "Source",
    "Timestamp",
    "Token",
    "kind_of",
    "profile_id",
    "profile_of",
    "provider_in",
]

Kind: TypeAlias = Literal["api_key", "token", "oauth"]
"""The kind of credential that a profile has."""

Place: TypeAlias = Literal["file", "keyring", "environment"]
"""Where the secret is stored."""

Source: TypeAlias = Literal["auto", "user"]
"""Who chose a profile: Treadle or a person."""

DEFAULT = "default"
"""The name of a provider's profile when the user gives none."""

ENVIRONMENT = "environment"
"""The name of the profile whose key is in the provider's environment variable."""

LATEST = 253_402_300_799_000
"""The latest end of a token, in milliseconds: the end of the year 9999."""

Timestamp: TypeAlias = Annotated[int, Meta(ge=0, le=LATEST)]
"""Milliseconds since 1970."""

_NAME = r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,199}"


class AuthError(ConfigError):
    """Profiles cannot be used as they are."""


class ProfileUnusable(AuthError):
    """One profile cannot be used; another may."""

    def __init__(self, profile: str, why: str, *, permanent: bool) -> None:
        self.profile, self.permanent = profile, permanent
        super().__init__(f"profile {profile!r} cannot be used: {why}")


class RouteRefused(AuthError):
    """A route needs a credential of a kind that is not there."""


class _Secret(
    Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True, rename="camel"
):
    """The fields that all credentials have; its `repr` shows no secret."""

    provider: str
    label: str = ""
    email: str = ""
    account_id: str = ""
    keyring: bool = False
    """Whether the secret is in the keyring and only the other fields are here."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(provider={self.provider!r}, …)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("provider", self.provider)]


class ApiKey(_Secret, frozen=True, kw_only=True, tag="api_key"):
    """An API key; it does not expire."""

    key: str = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key, as a tuple of one."""
        return (self.key,)

    @property
    def bearer(self) -> str:
        """The text that authorizes a request."""
        return self.key


class Token(_Secret, frozen=True, kw_only=True, tag="token"):
    """A token that cannot be refreshed; `expires` is in milliseconds, None for never."""

    token: str = ""
    expires: Timestamp | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The token, as a tuple of one."""
        return (self.token,)

    @property
    def bearer(self) -> str:
        """The text that authorizes a request."""
        return self.token


class OAuth(_Secret, frozen=True, kw_only=True, tag="oauth"):
    """A pair of tokens: `access` until `expires` (milliseconds), `refresh` for the next pair."""

    access: str = ""
    refresh: str = ""
    expires: Timestamp = 0
    token_url: str = ""
    """The endpoint that gives the next pair."""
    client_id: str = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Both tokens."""
        return (self.access, self.refresh)

    @property
    def bearer(self) -> str:
        """The text that authorizes a request."""
        return self.access


class ServerLogin(_Secret, frozen=True, kw_only=True, tag="mcp_login"):
    """A login to an MCP server; it is of use at that `resource` and that `issuer` only."""

    access: str = ""
    refresh: str = ""
    """What the next access token is asked for with; empty where there is nothing."""
    expires: Timestamp | None = None
    scope: str = ""
    resource: str = ""
    issuer: str = ""
    authorize_url: str = ""
    token_url: str = ""
    client: str = ""
    """What the authorization server knows us as: its client information, as JSON."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The tokens."""
        return (self.access, self.refresh) if self.refresh else (self.access,)

    @property
    def bearer(self) -> str:
        """The text that authorizes a request."""
        return self.access


Credential: TypeAlias = ApiKey | Token | OAuth | ServerLogin
"""A secret and the provider it is for."""


class Profile(Struct, frozen=True, kw_only=True):
    """An account of a provider that Treadle can use; holds no secret."""

    id: str
    provider: str
    kind: Kind
    place: Place = "file"
    label: str = ""
    email: str = ""
    account_id: str = ""
    expires: int | None = None
    """When its token expires, in milliseconds; None for never."""

    def is_expired(self, now: int) -> bool:
        """Return whether its token has expired; an oauth profile can then be refreshed."""
        return self.expires is not None and self.expires <= now


def profile_id(provider: str, name: str = DEFAULT) -> str:
    """Return the id of a profile: ``provider:name``. Raises `AuthError`.

    >>> profile_id("openai", "me@example.org")
    'openai:me@example.org'
    """
    for what, given in (("provider", provider), ("name of a profile", name)):
        if not re.fullmatch(_NAME, given):
            raise AuthError(
                f"{given!r} is not a {what}; use letters, digits and . _ @ + -, starting with a "
                "letter or digit"
            )
    return f"{provider}:{name}"


def provider_in(profile: str) -> str:
    """Return the provider part of a profile id."""
    return profile.partition(":")[0]


def kind_of(credential: Credential) -> Kind:
    """Return the kind of `credential`."""
    match credential:
        case ApiKey():
            return "api_key"
        case Token():
            return "token"
        case OAuth() | ServerLogin():
            return "oauth"


def profile_of(name: str, credential: Credential, place: Place | None = None) -> Profile:
    """Return the profile `name` of `credential`: everything but the secret."""
    return Profile(
        id=name,
        provider=credential.provider,
        kind=kind_of(credential),
        place=place or ("keyring" if credential.keyring else "file"),
        label=credential.label,
        email=credential.email,
        account_id=credential.account_id,
        expires=None if isinstance(credential, ApiKey) else credential.expires,
    )
