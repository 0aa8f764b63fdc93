"""Secrets: the credentials of one Treadle home.

Owns ``auth.json``, its lock, and what of it is in the keyring instead. Invariants: what
`put` stores is durable before `put` returns; two processes never undo each other's changes;
what a newer version wrote into the file stays in it; a file that others can read is not
used; and nobody waits for a lock without end.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ...core.files import read_bounded, replace_file
from ...core.redact import add_secrets
from ...core.service import Service
from ...core.typed import decode_json
from ...core.wire import UNREADABLE, json_bytes
from .credential import (
    ApiKey,
    AuthError,
    Credential,
    OAuth,
    Profile,
    ProfileUnusable,
    ServerLogin,
    Token,
    profile_id,
    profile_of,
)
from .keyring import FindKeyring, Keyring, find_keyring

__all__ = ["LARGEST_SECRET_FILE", "SecretStore", "StorageChoice", "hold_lock", "try_lock"]

StorageChoice: TypeAlias = Literal["auto", "file", "keyring"]
"""Where to store a secret; ``auto`` is the keyring if there is one."""

LARGEST_SECRET_FILE = 4 << 20
"""Bytes of the largest file that is read."""

_log = logging.getLogger(__name__)

_VERSION = 2
_TYPES = frozenset(("api_key", "token", "oauth", "mcp_login"))
_LOCK_TIMEOUT = 10.0
_LOCK_PAUSE = 0.01


class _Header(Struct):
    type: str = ""
    keyring: bool = False


class _Contents(Struct, kw_only=True):
    """The file; version 1 had one key for each provider."""

    version: int = 1
    realm: str = ""
    """The name under which the keyring stores the secrets of this file."""
    keys: dict[str, str] = {}
    profiles: dict[str, Raw] = {}


class SecretStore(Service):
    """The credentials of one home, by profile id.

    `keyring` is the keyring to use, or a function that looks for one when it is needed.
    """

    home: Path
    keyring: Keyring | FindKeyring | None = find_keyring
    _found: tuple[Keyring | None, str] | None = None

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.home / "auth.json"

    def profiles(self) -> tuple[Profile, ...]:
        """Return all stored profiles, without their secrets. Raises `AuthError`."""
        contents, _ = self._read()
        return tuple(
            profile_of(name, credential)
            for name, raw in sorted(contents.profiles.items())
            if (credential := self._parse(name, raw)) is not None
        )

    def get(self, name: str) -> Credential:
        """Return the credential with its secret. Raises `ProfileUnusable`."""
        contents, _ = self._read()
        raw = contents.profiles.get(name)
        credential = None if raw is None else self._parse(name, raw)
        if credential is None:
            raise ProfileUnusable(
                name, "it is not stored; `treadle auth` lists the stored profiles", permanent=True
            )
        if credential.keyring:
            credential = self._read_keyring(contents.realm, name)
        add_secrets(*credential.secrets)
        return credential

    def put(self, name: str, credential: Credential, where: StorageChoice = "auto") -> Profile:
        """Store `credential` durably and replace an older one. Raises `AuthError`."""
        _check(name, credential)
        add_secrets(*credential.secrets)
        with hold_lock(self._lock):
            contents, whole = self._read()
            keyring = self._keyring_for(where, contents.profiles.get(name))
            if keyring is None or not self._put_in_keyring(
                contents, name, credential, keyring, where
            ):
                contents.profiles[name] = Raw(json_bytes(replace(credential, keyring=False)))
            self._write(contents, whole)
        return profile_of(name, _decode(contents.profiles[name]))

    def remove(self, name: str) -> bool:
        """Delete a profile; return whether there was one."""
        with hold_lock(self._lock):
            contents, whole = self._read()
            raw = contents.profiles.pop(name, None)
            if raw is None:
                return False
            self._write(contents, whole)
        keyring = self._find_keyring()[0] if _in_keyring(raw) else None
        if keyring is not None:
            keyring.remove(contents.realm, name)
        return True

    @property
    def _lock(self) -> Path:
        return self.home / "auth.lock"

    def _find_keyring(self) -> tuple[Keyring | None, str]:
        if self._found is None:
            given = self.keyring
            self._found = given() if callable(given) else (given, "" if given else "none is used")
        return self._found

    def _keyring_for(self, where: StorageChoice, before: Raw | None) -> Keyring | None:
        """Return the keyring to use; None for the file.

        A secret stays where it was, unless `where` names another place.
        """
        if where == "file" or (where == "auto" and before is not None and not _in_keyring(before)):
            return None
        keyring, why = self._find_keyring()
        if keyring is None and where == "keyring":
            raise AuthError(f"there is no keyring to use: {why}; leave out `--in keyring`")
        return keyring

    def _put_in_keyring(
        self,
        contents: _Contents,
        name: str,
        credential: Credential,
        keyring: Keyring,
        where: StorageChoice,
    ) -> bool:
        """Put the secret in the keyring; return False if that fails and the file will do."""
        contents.realm = contents.realm or f"treadle-{os.urandom(16).hex()}"
        secret = json_bytes(replace(credential, keyring=False)).decode()
        try:
            keyring.put(contents.realm, name, secret)
        except AuthError as error:
            if where == "keyring":
                raise
            _log.warning("profile %r is stored in a file: %s", name, error)
            return False
        contents.profiles[name] = Raw(json_bytes(_without_secrets(credential)))
        return True

    def _read_keyring(self, realm: str, name: str) -> Credential:
        keyring, why = self._find_keyring()
        if keyring is None:
            raise ProfileUnusable(
                name, f"its secret is in the keyring, and {why}; add it again", permanent=False
            )
        try:
            secret = keyring.get(realm, name)
        except AuthError as error:
            raise ProfileUnusable(name, str(error), permanent=False) from None
        credential = None if secret is None else self._parse(name, Raw(secret.encode()))
        if credential is None:
            raise ProfileUnusable(
                name, "the keyring has lost its secret; add it again", permanent=True
            )
        return credential

    def _parse(self, name: str, raw: Raw) -> Credential | None:
        """Return a credential of the file; None for a type that only a newer version knows."""
        try:
            if decode_json(raw, _Header).type not in _TYPES:
                return None
            credential = _decode(raw)
        except UNREADABLE:
            raise AuthError(
                f"the profile {name!r} in {str(self.path)!r} cannot be read; "
                f"repair or remove it there, or run `treadle auth remove {name}`"
            ) from None
        add_secrets(*credential.secrets)
        return credential

    def _read(self) -> tuple[_Contents, dict[str, Raw]]:
        """Return the file as this version understands it, and all of its fields."""
        body = _read_private_file(self.path)
        if body is None:
            return _Contents(version=_VERSION), {}
        try:
            whole = decode_json(body, dict[str, Raw])
            contents = decode_json(body, _Contents)
        except UNREADABLE:
            raise AuthError(
                f"cannot read {str(self.path)!r}: Treadle did not write it; repair or remove it"
            ) from None
        if contents.version > _VERSION:
            raise AuthError(f"a newer Treadle wrote {str(self.path)!r}; update this one")
        for provider, key in contents.keys.items():
            old = Raw(json_bytes(ApiKey(provider=provider, key=key)))
            contents.profiles.setdefault(f"{provider}:default", old)
        return contents, whole

    def _write(self, contents: _Contents, whole: dict[str, Raw]) -> None:
        whole.pop("keys", None)
        ours = {"version": _VERSION, "realm": contents.realm, "profiles": contents.profiles}
        body = msgspec.json.format(json_bytes({**whole, **ours}), indent=2)
        # Writers that were killed leave temporary files; the lock says that nobody writes now.
        for leftover in self.home.glob(f".{self.path.name}-*"):
            leftover.unlink(missing_ok=True)
        replace_file(self.path, body + b"\n")


@contextmanager
def hold_lock(path: Path, timeout: float = _LOCK_TIMEOUT) -> Iterator[None]:
    """Hold the lock file `path`; the kernel releases it when the process ends.

    Raises `AuthError` when `timeout` seconds have passed.
    """
    until = time.monotonic() + timeout
    while (descriptor := try_lock(path)) is None:
        if time.monotonic() > until:
            raise AuthError(
                f"another process keeps {str(path)!r} locked; try again when it is done"
            )
        time.sleep(_LOCK_PAUSE)
    try:
        yield
    finally:
        os.close(descriptor)


def try_lock(path: Path) -> int | None:
    """Return a descriptor that holds the lock until it is closed; None if it is taken."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise AuthError(
            f"cannot create the lock file {str(path)!r} ({error.strerror}); "
            "check the owner and mode of its directory"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _read_private_file(path: Path) -> bytes | None:
    """Return the bytes of the file; None where there is none. Raises `AuthError`."""
    try:
        _check_private(path)
        return read_bounded(path, LARGEST_SECRET_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise AuthError(
            f"cannot read {str(path)!r}: {error.strerror}; repair or remove it"
        ) from None


def _check_private(path: Path) -> None:
    """Raise `AuthError` if `path` is not a file or others may read or write it."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        # Reading a pipe would wait for its writer, for ever if there is none.
        raise AuthError(f"cannot read {str(path)!r}: it is not a file; repair or remove it")
    if mode & 0o077:
        raise AuthError(
            f"{str(path)!r} can be read by others; `chmod 600` it, and replace its keys, "
            "for others may know them"
        )


def _check(name: str, credential: Credential) -> None:
    provider, _, own = name.partition(":")
    profile_id(provider, own)
    if provider != credential.provider:
        raise AuthError(f"profile {name!r} cannot hold a secret of {credential.provider!r}")
    for secret in credential.secrets:
        if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
            raise AuthError(
                f"that is not a key for {provider!r}: it is empty or has characters that no key "
                "has; copy it again"
            )


def _decode(raw: Raw) -> Credential:
    credential: Credential = decode_json(raw, Credential)
    return credential


def _in_keyring(raw: Raw) -> bool:
    try:
        return decode_json(raw, _Header).keyring
    except UNREADABLE:
        return False


def _without_secrets(credential: Credential) -> Credential:
    match credential:
        case ApiKey():
            return replace(credential, keyring=True, key="")
        case Token():
            return replace(credential, keyring=True, token="")
        case OAuth():
            return replace(credential, keyring=True, access="", refresh="")
        case ServerLogin():
            return replace(credential, keyring=True, access="", refresh="", client="")
