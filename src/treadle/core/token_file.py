"""The token of a home: what a local server wants to be shown.

Owns how it is found and made. Invariants: it is written into no log, and one that anybody can
guess is refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from .errors import ConfigError
from .files import read_bounded, replace_file
from .redact import add_secrets

__all__ = ["ensure_token"]

_SHORTEST = 16
_LONGEST = 1 << 12


def ensure_token(file: Path, variable: str, environ: Mapping[str, str]) -> str:
    """Return the token in the `variable`, else the one in `file`, which is made if need be.

    Raises `ConfigError` for one that anybody can guess.
    """
    token = environ.get(variable, "").strip()
    if not token and not file.exists():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, secrets.token_urlsafe(32).encode())
    token = token or read_bounded(file, _LONGEST).decode(errors="replace").strip()
    if len(token) < _SHORTEST or not token.isascii():
        raise ConfigError(
            f"the token has fewer than {_SHORTEST} characters, or other than plain ones; remove "
            f"{str(file)!r}, or set {variable} to a long random one"
        )
    add_secrets(token)
    return token
