"""The keyring of the desktop, where there is one.

Owns the `Keyring` protocol and the package `keyring` behind it, which is loaded when it is
first needed. Invariants: nobody waits for a keyring longer than `TIMEOUT`; a keyring that
hung or failed is not called again by this process; no error quotes a secret.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, TypeAlias, TypeVar

from ...core.install import install_command
from ...core.service import Service
from .credential import AuthError

__all__ = ["TIMEOUT", "FindKeyring", "Keyring", "SystemKeyring", "find_keyring"]

TIMEOUT = 15.0
"""Seconds: long enough to type a password, too short to look like a hang."""

_NOT_INSTALLED = f"the package is not installed; {install_command('keyring')} adds it"

T = TypeVar("T")


class Keyring(Protocol):
    """Stores secrets by name. Every failure is an `AuthError` that names the next action."""

    def get(self, realm: str, name: str) -> str | None:
        """Return the secret; None if there is none."""
        ...

    def put(self, realm: str, name: str, secret: str) -> None:
        """Store `secret` and replace an older one."""
        ...

    def remove(self, realm: str, name: str) -> None:
        """Delete a secret; do nothing if there is none."""
        ...


FindKeyring: TypeAlias = Callable[[], tuple[Keyring | None, str]]
"""Looks for a keyring and returns it, or None and the reason why there is none."""


class SystemKeyring(Service):
    """The keyring that the package `keyring` finds."""

    backend: Any
    timeout: float = TIMEOUT
    _problem: str = ""

    def get(self, realm: str, name: str) -> str | None:
        """Return the secret; None if there is none."""
        secret: str | None = self._call(lambda: self.backend.get_password(realm, name))
        return secret

    def put(self, realm: str, name: str, secret: str) -> None:
        """Store `secret` and replace an older one."""
        self._call(lambda: self.backend.set_password(realm, name, secret))

    def remove(self, realm: str, name: str) -> None:
        """Delete a secret; do nothing if there is none."""
        if self.get(realm, name) is not None:
            self._call(lambda: self.backend.delete_password(realm, name))

    def _call(self, operation: Callable[[], T]) -> T:
        if not self._problem:
            try:
                return _call_with_timeout(operation, self.timeout)
            except TimeoutError:
                self._problem = f"it did not answer within {self.timeout:g} seconds"
            except Exception as error:  # noqa: BLE001 - backends raise what they like
                # The text of a backend's error may quote what it was given.
                self._problem = f"it failed with {type(error).__name__}"
        raise AuthError(
            f"the keyring cannot be used: {self._problem}; unlock it, or keep the secret in a "
            "file with `treadle auth add --in file`"
        )


def find_keyring() -> tuple[SystemKeyring | None, str]:
    """Return the keyring of this machine, or None and the reason why there is none."""
    try:
        return _call_with_timeout(_load_keyring, TIMEOUT)
    except TimeoutError:
        return None, f"it did not answer within {TIMEOUT:g} seconds"


def _load_keyring() -> tuple[SystemKeyring | None, str]:
    try:
        package = import_module("keyring")
    except ImportError:
        return None, _NOT_INSTALLED
    try:
        backend = package.get_keyring()
        priority = float(backend.priority)
    except Exception as error:  # noqa: BLE001 - backends raise what they like
        return None, f"its backend failed with {type(error).__name__}"
    # A backend of priority 0 or less is a placeholder of the package and stores nothing.
    if priority < 1:
        return None, "no backend works on this machine"
    return SystemKeyring(backend), ""


def _call_with_timeout(operation: Callable[[], T], timeout: float) -> T:
    """Return what `operation` returns. Raises `TimeoutError`; it then runs on unattended."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(operation())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    # A daemon, so that a keyring which never answers does not keep the process from ending.
    worker = threading.Thread(target=run, name="treadle-keyring", daemon=True)
    worker.start()
    worker.join(timeout)
    if worker.is_alive():
        raise TimeoutError
    if errors:
        raise errors[0]
    return results[0]
