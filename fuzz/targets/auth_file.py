"""`auth.json`, token endpoints and tokens that people bring."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from treadle.core.redact import forget_secrets
from treadle.policy.auth.credential import ApiKey, AuthError
from treadle.policy.auth.oauth import _lifetime, _parse_answer, _refusal, parse_tokens
from treadle.policy.auth.secrets import SecretStore

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
    store = SecretStore(_HOME, keyring=None)
    with suppress(AuthError):
        before = {profile.id for profile in store.profiles()}
        for name in before:
            with suppress(AuthError):
                store.get(name)
        store.put("new:default", ApiKey(provider="new", key="planted"))
        assert {profile.id for profile in store.profiles()} == before | {"new:default"}
    answer = _parse_answer(data)
    assert 0 < _lifetime(answer.expires_in) < 1e12
    assert len(str(_refusal("p", 400, answer))) < 500
    with suppress(AuthError):
        parse_tokens("p", data.decode(errors="surrogateescape"), 0)
    forget_secrets()
