"""Subscriptions: tokens that pay at an endpoint of their own.

Owns where the tokens of an OpenAI subscription are taken, and the account that a request
with one must name. Invariant: such a token goes to the subscription's endpoint, or to an
address that the user has set; never to the API that keys pay for.
"""

from __future__ import annotations

import base64
import binascii
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from ...core.typed import decode_json
from .accounts import provider_for_auth
from .credential import Credential, Profile, ProfileUnusable, kind_of

__all__ = [
    "ACCOUNT_HEADER",
    "ACCOUNT_PROVIDER",
    "SUBSCRIPTION_URL",
    "find_account",
    "is_subscription",
    "subscription_account",
    "subscription_url",
]

SUBSCRIPTION_URL = "https://chatgpt.com/backend-api/codex"
"""The endpoint of an OpenAI subscription, unless the settings name another one."""

ACCOUNT_PROVIDER = "openai"
"""The provider whose tokens belong to a subscription; others take a token as a key."""

ACCOUNT_HEADER = "chatgpt-account-id"
"""Names the account that pays."""

_API_HOST = "api.openai.com"


class _Auth(Struct, frozen=True):
    chatgpt_account_id: str = ""


class _Claims(Struct, frozen=True):
    auth: _Auth = field(name="https://api.openai.com/auth", default_factory=_Auth)


def is_subscription(of: Credential | Profile) -> bool:
    """Return whether a credential, or that of a profile, is a token of an OpenAI subscription."""
    kind = of.kind if isinstance(of, Profile) else kind_of(of)
    return provider_for_auth(of.provider) == ACCOUNT_PROVIDER and kind != "api_key"


def find_account(credential: Credential) -> str:
    """Return the account that a token names or was added with; empty if there is none."""
    return credential.account_id or _account_in(credential.bearer)


def subscription_account(profile: str, credential: Credential) -> str:
    """Return the account of a subscription's token. Raises `ProfileUnusable`."""
    account = find_account(credential)
    if not account:
        why = "its token names no account; add it again with its `account_id`"
        raise ProfileUnusable(profile, why, permanent=True)
    return account


def subscription_url(base_url: str) -> str:
    """Return the address for a subscription's tokens: its own instead of the API's."""
    host = (urlsplit(base_url).hostname or "").rstrip(".")
    return SUBSCRIPTION_URL if host == _API_HOST or not host else base_url


def _account_in(bearer: str) -> str:
    """Return the account in the claims of a token; empty if there is none."""
    middle = [*bearer.split("."), "", ""][1]
    try:
        data = base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4))
        return decode_json(data, _Claims).auth.chatgpt_account_id
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        return ""
