"""Signing in: with whose tokens an app-server asks the models of a subscription.

Owns how a profile becomes a login of the server's. Invariants: a profile is used for its
own provider only; a server in the user's home keeps the login it has there; and tokens
go to the server's memory, never into its files.
"""

from __future__ import annotations

import base64
import binascii

import msgspec
from msgspec import Struct, field

from ...policy.auth.aliases import Login, forwarded, prepared, provider_for_auth, requirement_of
from ...policy.auth.errors import ProfileUnusable
from ...policy.auth.order import Candidate
from ...policy.auth.profile import Credential, OAuth, Token, profile_of
from ..contract import Identity
from .mirror import HARNESS
from .protocol.requests import AccountLogin

__all__ = ["ACCOUNT_PROVIDER", "SUBSCRIPTION_URL", "AccountTokens", "account_tokens", "login_for"]

SUBSCRIPTION_URL = "https://chatgpt.com/backend-api/codex"
"""Where a subscription of OpenAI's is asked, unless the settings say otherwise."""

ACCOUNT_PROVIDER = "openai"
"""The provider whose tokens a server signs in with; others take a token as a key."""


class _Auth(Struct, frozen=True):
    chatgpt_account_id: str = ""


class _Claims(Struct, frozen=True):
    auth: _Auth = field(name="https://api.openai.com/auth", default_factory=_Auth)


class AccountTokens(Struct, frozen=True, kw_only=True):
    """The tokens of one profile, as a server is told them."""

    profile: str
    token: str
    account: str

    @property
    def login_request(self) -> AccountLogin:
        """What signs the server in."""
        return AccountLogin(access_token=self.token, chatgpt_account_id=self.account)

    def __repr__(self) -> str:
        return f"Signature({self.profile!r})"


def login_for(provider: str, who: Identity, *, own_home: bool) -> Login | None:
    """How a server signs in for `provider`. Raises `RouteRefused`; None for nobody."""
    if who.credential is None:
        return None
    profile = profile_of(who.profile, who.credential)
    plan = forwarded(provider, HARNESS, (Candidate(profile=profile),))
    # Models of Codex's own are a subscription's.
    wanted = "subscription" if provider == HARNESS else requirement_of(profile.kind)
    # A key is no login: it is told by a variable, and the user's own stays as it is.
    own = own_home or wanted == "api-key"
    return prepared(wanted, plan, (profile,), own_home=own)


def account_tokens(who: Identity) -> AccountTokens | None:
    """The tokens to sign in with, where a profile has such. Raises `ProfileUnusable`."""
    credential = who.credential
    if not isinstance(credential, OAuth | Token):
        return None
    if provider_for_auth(credential.provider) != ACCOUNT_PROVIDER:
        return None
    account = credential.account_id or _account_in(credential)
    if not account:
        why = "its token names no account; add it again with its `account_id`"
        raise ProfileUnusable(who.profile, why, permanent=True)
    return AccountTokens(profile=who.profile, token=credential.bearer, account=account)


def _account_in(credential: Credential) -> str:
    """The account that a token is for, as its claims say."""
    middle = [*credential.bearer.split("."), "", ""][1]
    try:
        data = base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4))
        return msgspec.json.decode(data, type=_Claims).auth.chatgpt_account_id
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        return ""
