"""The keyring of the desktop, where there is one.

Owns the `Vault` seam and the package `keyring` behind it, which is loaded when it is
first needed. Invariants: nobody waits for a keyring for longer than `PATIENCE`; one
that hung or failed is not asked again by this process; no error quotes a secret.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, TypeAlias, TypeVar

from ...core.service import Service
from .errors import AuthError

__all__ = ["PATIENCE", "FindVault", "SystemKeyring", "Vault", "find_vault"]

PATIENCE = 15.0
"""Seconds: long enough to type a password, too short to look like a hang."""

_ABSENT = "the package is not installed; `pip install 'treadle[keyring]'` adds it"

T = TypeVar("T")


class Vault(Protocol):
    """Keeps secrets by name. Every failure is an `AuthError` that says what to do."""

    def get(self, realm: str, name: str) -> str | None:
        """The secret; None if there is none."""
        ...

    def put(self, realm: str, name: str, secret: str) -> None:
        """Keep `secret` in the place of an older one."""
        ...

    def remove(self, realm: str, name: str) -> None:
        """Forget a secret; harmless if there is none."""
        ...


FindVault: TypeAlias = Callable[[], tuple[Vault | None, str]]
"""Looks for a keyring: the one to use, or why there is none."""


class SystemKeyring(Service):
    """The keyring that the package `keyring` finds."""

    backend: Any
    patience: float = PATIENCE
    _broken: str = ""

    def get(self, realm: str, name: str) -> str | None:
        """The secret; None if there is none."""
        found: str | None = self._ask(lambda: self.backend.get_password(realm, name))
        return found

    def put(self, realm: str, name: str, secret: str) -> None:
        """Keep `secret` in the place of an older one."""
        self._ask(lambda: self.backend.set_password(realm, name, secret))

    def remove(self, realm: str, name: str) -> None:
        """Forget a secret; harmless if there is none."""
        if self.get(realm, name) is not None:
            self._ask(lambda: self.backend.delete_password(realm, name))

    def _ask(self, question: Callable[[], T]) -> T:
        if not self._broken:
            try:
                return _in_time(question, self.patience)
            except TimeoutError:
                self._broken = f"it did not answer within {self.patience:g} seconds"
            except Exception as error:  # noqa: BLE001 - backends raise what they like
                # The text of a backend's error may quote what it was given.
                self._broken = f"it failed with {type(error).__name__}"
        raise AuthError(
            f"the keyring cannot be used: {self._broken}; unlock it, or keep the secret in a "
            "file with `treadle auth add --in file`"
        )


def find_vault() -> tuple[SystemKeyring | None, str]:
    """The keyring of this machine, or why there is none, in words."""
    try:
        return _in_time(_usable, PATIENCE)
    except TimeoutError:
        return None, f"it did not answer within {PATIENCE:g} seconds"


def _usable() -> tuple[SystemKeyring | None, str]:
    try:
        keyring = import_module("keyring")
    except ImportError:
        return None, _ABSENT
    try:
        backend = keyring.get_keyring()
        strength = float(backend.priority)
    except Exception as error:  # noqa: BLE001 - backends raise what they like
        return None, f"its backend failed with {type(error).__name__}"
    # The package stands in with a backend of priority 0 or less that keeps nothing.
    if strength < 1:
        return None, "no backend works on this machine"
    return SystemKeyring(backend), ""


def _in_time(question: Callable[[], T], patience: float) -> T:
    """What `question` answers. Raises `TimeoutError`; the question is then left to itself."""
    answers: list[T] = []
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            answers.append(question())
        except BaseException as error:  # noqa: BLE001 - raised again where it was asked
            errors.append(error)

    # A daemon, so that a keyring which never answers does not keep the process from ending.
    asking = threading.Thread(target=ask, name="treadle-keyring", daemon=True)
    asking.start()
    asking.join(patience)
    if asking.is_alive():
        raise TimeoutError
    if errors:
        raise errors[0]
    return answers[0]
