"""Tokens as people bring them: a JSON document becomes an oauth credential.

Owns the spellings that are understood: those of ``auth.json`` and those of a token
endpoint's answer. Invariant: what is wrong with a document is told without quoting it.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ...core.wire import UNREADABLE
from .errors import AuthError
from .oauth import check_endpoint
from .profile import Moment, OAuth

__all__ = ["read_tokens"]


class _Brought(Struct):
    access: str = ""
    access_token: str = ""
    refresh: str = ""
    refresh_token: str = ""
    expires: Moment = 0
    expires_in: float = 0.0
    email: str = ""
    account_id: str = ""
    accountId: str = ""  # noqa: N815 - as it is spelled in files
    token_url: str = ""
    tokenUrl: str = ""  # noqa: N815 - as it is spelled in files
    client_id: str = ""
    clientId: str = ""  # noqa: N815 - as it is spelled in files


def read_tokens(provider: str, text: str, now: int) -> OAuth:
    """The credential in `text`. Raises `AuthError`.

    It needs an access token, a refresh token, the end of the first (`expires` in
    milliseconds or `expires_in` in seconds) and the `token_url` where the next are asked for.
    """
    try:
        brought = msgspec.json.decode(text, type=_Brought)
    except (*UNREADABLE, UnicodeEncodeError):
        raise AuthError(
            "that is no JSON object with `access`, `refresh`, `expires` and `token_url`; "
            "`treadle auth add --help` shows one"
        ) from None
    credential = OAuth(
        provider=provider,
        access=(brought.access or brought.access_token).strip(),
        refresh=(brought.refresh or brought.refresh_token).strip(),
        expires=brought.expires or _end(brought.expires_in, now),
        email=brought.email,
        account_id=brought.account_id or brought.accountId,
        token_url=brought.token_url or brought.tokenUrl,
        client_id=brought.client_id or brought.clientId,
    )
    check_endpoint(provider, credential.token_url)
    return credential


def _end(seconds: float, now: int) -> int:
    """Tokens that do not say when they end are refreshed before their first use."""
    return now + int(seconds * 1000) if 0 < seconds < 1e10 else now
