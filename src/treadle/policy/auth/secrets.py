"""Secrets: the credentials of one home.

Owns ``auth.json`` and what of it is in the keyring instead. Invariants: what is put is
durable before `put` returns; two processes never undo each other's changes; and what a
newer version wrote into the file stays in it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace as changed

from ...core.files import replace_file
from ...core.redact import add_secrets
from ...core.service import Service
from ...core.wire import UNREADABLE, json_bytes
from . import disk
from .errors import AuthError, ProfileUnusable
from .profile import ApiKey, Credential, OAuth, Profile, Token, profile_id, profile_of
from .vault import FindVault, Vault, find_vault

__all__ = ["SecretStore", "Where"]

Where: TypeAlias = Literal["auto", "file", "keyring"]
"""Where a secret is put; ``auto`` is the keyring if there is one."""

_log = logging.getLogger(__name__)

_VERSION = 2
_TYPES = frozenset(("api_key", "token", "oauth"))


class _Typed(Struct):
    type: str = ""
    keyring: bool = False


class _Kept(Struct, kw_only=True):
    """The file: version 1 had one key for each provider."""

    version: int = 1
    realm: str = ""
    """Under which name the keyring keeps what belongs here."""
    keys: dict[str, str] = {}
    profiles: dict[str, Raw] = {}


class SecretStore(Service):
    """The credentials of one home, by profile id.

    `vault` is the keyring to use, or a function that looks for one when it is needed.
    """

    home: Path
    vault: Vault | FindVault | None = find_vault
    _found: tuple[Vault | None, str] | None = None

    @property
    def path(self) -> Path:
        """Where they are."""
        return self.home / "auth.json"

    def profiles(self) -> tuple[Profile, ...]:
        """All that are kept, without their secrets. Raises `AuthError`."""
        kept, _ = self._read()
        return tuple(
            profile_of(name, credential)
            for name, raw in sorted(kept.profiles.items())
            if (credential := self._parsed(name, raw)) is not None
        )

    def get(self, name: str) -> Credential:
        """The credential with its secret. Raises `ProfileUnusable`."""
        kept, _ = self._read()
        raw = kept.profiles.get(name)
        credential = None if raw is None else self._parsed(name, raw)
        if credential is None:
            raise ProfileUnusable(
                name, "it is not kept; `treadle auth` lists those", permanent=True
            )
        if credential.keyring:
            credential = self._unlocked(kept.realm, name)
        add_secrets(*credential.secrets)
        return credential

    def put(self, name: str, credential: Credential, where: Where = "auto") -> Profile:
        """Keep `credential`, in the place of an older one, durably. Raises `AuthError`."""
        _check(name, credential)
        add_secrets(*credential.secrets)
        with disk.locked(self._lock):
            kept, whole = self._read()
            vault = self._place(where, kept.profiles.get(name))
            if vault is None or not self._locked_away(kept, name, credential, vault, where):
                kept.profiles[name] = Raw(json_bytes(changed(credential, keyring=False)))
            self._write(kept, whole)
        return profile_of(name, _credential(kept.profiles[name]))

    def remove(self, name: str) -> bool:
        """Forget a profile; whether there was one."""
        with disk.locked(self._lock):
            kept, whole = self._read()
            raw = kept.profiles.pop(name, None)
            if raw is None:
                return False
            self._write(kept, whole)
        vault = self._vault()[0] if _in_keyring(raw) else None
        if vault is not None:
            vault.remove(kept.realm, name)
        return True

    def keyring(self) -> str:
        """Why there is no keyring; nothing if there is one."""
        return self._vault()[1]

    @property
    def _lock(self) -> Path:
        return self.home / "auth.lock"

    def _vault(self) -> tuple[Vault | None, str]:
        if self._found is None:
            given = self.vault
            self._found = given() if callable(given) else (given, "" if given else "none is used")
        return self._found

    def _place(self, where: Where, before: Raw | None) -> Vault | None:
        """Where a secret goes: where it was, unless something else was asked for."""
        if where == "file" or (where == "auto" and before is not None and not _in_keyring(before)):
            return None
        vault, why = self._vault()
        if vault is None and where == "keyring":
            raise AuthError(f"there is no keyring to use: {why}; leave out `--in keyring`")
        return vault

    def _locked_away(
        self, kept: _Kept, name: str, credential: Credential, vault: Vault, where: Where
    ) -> bool:
        """Put the secret in the keyring; False if it does not work and need not."""
        import uuid

        kept.realm = kept.realm or f"treadle-{uuid.uuid4().hex}"
        secret = json_bytes(changed(credential, keyring=False)).decode()
        try:
            vault.put(kept.realm, name, secret)
        except AuthError as error:
            if where == "keyring":
                raise
            _log.warning("profile %r is kept in a file: %s", name, error)
            return False
        kept.profiles[name] = Raw(json_bytes(_without_secrets(credential)))
        return True

    def _unlocked(self, realm: str, name: str) -> Credential:
        vault, why = self._vault()
        if vault is None:
            raise ProfileUnusable(
                name, f"its secret is in the keyring, and {why}; add it again", permanent=False
            )
        try:
            found = vault.get(realm, name)
        except AuthError as error:
            raise ProfileUnusable(name, str(error), permanent=False) from None
        credential = None if found is None else self._parsed(name, Raw(found.encode()))
        if credential is None:
            raise ProfileUnusable(
                name, "the keyring has lost its secret; add it again", permanent=True
            )
        return credential

    def _parsed(self, name: str, raw: Raw) -> Credential | None:
        """A credential of the file; None for a type that a newer version knows."""
        try:
            if msgspec.json.decode(raw, type=_Typed).type not in _TYPES:
                return None
            return _credential(raw)
        except UNREADABLE:
            raise AuthError(
                f"the profile {name!r} in {str(self.path)!r} cannot be read; "
                f"mend or remove it there, or run `treadle auth remove {name}`"
            ) from None

    def _read(self) -> tuple[_Kept, dict[str, Raw]]:
        """The file as it is understood, and all of it."""
        body = disk.read(self.path)
        if body is None:
            return _Kept(version=_VERSION), {}
        try:
            whole = msgspec.json.decode(body, type=dict[str, Raw])
            kept = msgspec.json.decode(body, type=_Kept)
        except UNREADABLE:
            raise AuthError(
                f"cannot read {str(self.path)!r}: Treadle did not write it; mend or remove it"
            ) from None
        if kept.version > _VERSION:
            raise AuthError(f"a newer Treadle wrote {str(self.path)!r}; update this one")
        for provider, key in kept.keys.items():
            old = Raw(json_bytes(ApiKey(provider=provider, key=key)))
            kept.profiles.setdefault(f"{provider}:default", old)
        return kept, whole

    def _write(self, kept: _Kept, whole: dict[str, Raw]) -> None:
        whole.pop("keys", None)
        ours = {"version": _VERSION, "realm": kept.realm, "profiles": kept.profiles}
        body = msgspec.json.format(json_bytes({**whole, **ours}), indent=2)
        self._sweep()
        replace_file(self.path, body + b"\n")

    def _sweep(self) -> None:
        """Remove what writers that were killed have left; ours is the only one now."""
        for stray in self.home.glob(f".{self.path.name}-*"):
            stray.unlink(missing_ok=True)


def _check(name: str, credential: Credential) -> None:
    provider, _, own = name.partition(":")
    profile_id(provider, own)
    if provider != credential.provider:
        raise AuthError(f"profile {name!r} cannot hold a secret of {credential.provider!r}")
    for secret in credential.secrets:
        if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
            raise AuthError(
                f"that is no key for {provider!r}: it is empty or has characters no key has; "
                "copy it again"
            )


def _credential(raw: Raw) -> Credential:
    return msgspec.json.decode(raw, type=ApiKey | Token | OAuth)


def _in_keyring(raw: Raw) -> bool:
    try:
        return msgspec.json.decode(raw, type=_Typed).keyring
    except UNREADABLE:
        return False


def _without_secrets(credential: Credential) -> Credential:
    match credential:
        case ApiKey():
            return changed(credential, keyring=True, key="")
        case Token():
            return changed(credential, keyring=True, token="")
        case OAuth():
            return changed(credential, keyring=True, access="", refresh="")
