"""`auth.json`, token endpoints and tokens that people bring."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from treadle.core.redact import forget_secrets
from treadle.policy.auth.errors import AuthError
from treadle.policy.auth.oauth import _read, _refused, _span
from treadle.policy.auth.profile import ApiKey
from treadle.policy.auth.secrets import SecretStore
from treadle.policy.auth.tokens import read_tokens

__all__ = ["WORDS", "check"]

WORDS = (
    *(
        b'{"version":2,"profiles":{"p:default":{',
        b'"type":"api_key"',
        b'"type":"oauth"',
        b'"key":"',
    ),
    *(
        b'"provider":"p"',
        b'"keyring":true',
        b'"keys":{"p":"k"}',
        b'"expires":',
        b'"access":"',
        b"}",
    ),
    *(b'"refresh":"', b'"token_url":"https://x/"', b'"expires_in":', b'"access_token":"', b"\xff"),
    *(b"9" * 30, b"1e999", b"null", b"\\ud800", b"[", b'"realm":"', b'"error":"', b"\\u0000"),
)
_HOME = Path(tempfile.mkdtemp(prefix="treadle-fuzz-auth-"))


def check(data: bytes) -> None:
    """Profiles or `AuthError`; a file that can be read can be written, and keeps them all."""
    path = _HOME / "auth.json"
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(data)
    store = SecretStore(_HOME, vault=None)
    with suppress(AuthError):
        before = {profile.id for profile in store.profiles()}
        for name in before:
            with suppress(AuthError):
                store.get(name)
        store.put("new:default", ApiKey(provider="new", key="planted"))
        assert {profile.id for profile in store.profiles()} == before | {"new:default"}
    answer = _read(data)
    assert 0 < _span(answer.expires_in) < 1e12
    assert len(str(_refused("p", 400, answer))) < 500
    with suppress(AuthError):
        read_tokens("p", data.decode(errors="surrogateescape"), 0)
    forget_secrets()
