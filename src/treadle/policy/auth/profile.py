"""Profiles and credentials as values.

Owns the shape of both, on disk too. Invariants: a `Profile` can be shown to anyone; a
credential shows its secrets to nobody who prints, logs or compares it by accident.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from ...core.patterns import regex
from .errors import AuthError

__all__ = [
    "DEFAULT",
    "ENVIRONMENT",
    "LATEST",
    "ApiKey",
    "Credential",
    "Kind",
    "Moment",
    "OAuth",
    "Place",
    "Profile",
    "Source",
    "Token",
    "kind_of",
    "profile_id",
    "profile_of",
    "provider_in",
]

Kind: TypeAlias = Literal["api_key", "token", "oauth"]
"""What a profile proves itself with."""

Place: TypeAlias = Literal["file", "keyring", "environment"]
"""Where the secret is."""

Source: TypeAlias = Literal["auto", "user"]
"""Who chose a profile."""

DEFAULT = "default"
"""The name of a provider's only profile."""

ENVIRONMENT = "environment"
"""The name of the profile whose key is in the provider's variable."""

LATEST = 253_402_300_799_000
"""The last moment that a token can name, in milliseconds: the end of the year 9999."""

Moment: TypeAlias = Annotated[int, Meta(ge=0, le=LATEST)]
"""Milliseconds since 1970."""

_NAME = regex(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,199}")


class _Hidden(
    Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True, rename="camel"
):
    """What all credentials have: a provider, and nothing to show."""

    provider: str
    label: str = ""
    email: str = ""
    account_id: str = ""
    keyring: bool = False
    """Whether the secret is in the keyring, and only the rest stands here."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(provider={self.provider!r}, …)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("provider", self.provider)]


class ApiKey(_Hidden, frozen=True, kw_only=True, tag="api_key"):
    """A key that does not expire by itself."""

    key: str = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key."""
        return (self.key,)

    @property
    def bearer(self) -> str:
        """What a request is sent with."""
        return self.key


class Token(_Hidden, frozen=True, kw_only=True, tag="token"):
    """A token that cannot be renewed; `expires` is in milliseconds, if it does."""

    token: str = ""
    expires: Moment | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The token."""
        return (self.token,)

    @property
    def bearer(self) -> str:
        """What a request is sent with."""
        return self.token


class OAuth(_Hidden, frozen=True, kw_only=True, tag="oauth"):
    """A pair of tokens: `access` until `expires` (milliseconds), `refresh` for the next pair."""

    access: str = ""
    refresh: str = ""
    expires: Moment = 0
    token_url: str = ""
    """Where the next pair is asked for; empty for the provider's own place."""
    client_id: str = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Both tokens."""
        return (self.access, self.refresh)

    @property
    def bearer(self) -> str:
        """What a request is sent with."""
        return self.access


Credential: TypeAlias = ApiKey | Token | OAuth
"""A secret and whom it is for."""


class Profile(Struct, frozen=True, kw_only=True):
    """Who Treadle can be to a provider; holds no secret."""

    id: str
    provider: str
    kind: Kind
    place: Place = "file"
    label: str = ""
    email: str = ""
    account_id: str = ""
    expires: int | None = None
    """When its tokens end, in milliseconds; None if they don't."""

    def expired(self, now: int) -> bool:
        """Whether what it has is over; an oauth profile can then be refreshed."""
        return self.expires is not None and self.expires <= now


def profile_id(provider: str, name: str = DEFAULT) -> str:
    """The id of a profile: ``provider:name``. Raises `AuthError`.

    >>> profile_id("openai", "me@example.org")
    'openai:me@example.org'
    """
    for what, given in (("provider", provider), ("name of a profile", name)):
        if not _NAME.fullmatch(given):
            raise AuthError(
                f"{given!r} is no {what}; use letters, digits and . _ @ + -, starting with a "
                "letter or digit"
            )
    return f"{provider}:{name}"


def provider_in(profile: str) -> str:
    """The provider that the id of a profile names."""
    return profile.partition(":")[0]


def kind_of(credential: Credential) -> Kind:
    """The kind of profile that `credential` makes."""
    match credential:
        case ApiKey():
            return "api_key"
        case Token():
            return "token"
        case OAuth():
            return "oauth"


def profile_of(name: str, credential: Credential, place: Place | None = None) -> Profile:
    """What may be told about `credential` under the id `name`."""
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
