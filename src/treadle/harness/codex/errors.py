"""The errors between Treadle and an app-server, and the failure of a Codex turn.

CodexError
├── CodexMissing           the binary cannot be run
├── LoginMissing           the user's Codex is not logged in
├── UnsupportedCodex       Treadle does not support its version; `.version`
├── AppServerUnavailable   it dies each time it is started
├── Disconnected           the connection ended with open requests
│   └── AppServerDied      because the process ended; `.status`, `.last_stderr`
├── RequestTimeout         no result came in time; `.method`, `.seconds`
├── RequestFailed          the result is an error; `.method`, `.code`
│   ├── UnknownMethod      this version lacks the method
│   └── Overloaded         the server stayed overloaded
└── CodexProtocolError     a message that Treadle cannot read

No error text contains what was sent, and none contains a credential.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from ...core.errors import TreadleError
from ...core.redact import redact
from ...core.wire import json_bytes
from ...models.contract import ModelError
from ...models.provider_errors import error_for_status
from ...policy.failures import Failure, failure_of, named_failure
from .protocol.types import CodexTurnError

__all__ = [
    "AppServerDied",
    "AppServerUnavailable",
    "CodexError",
    "CodexMissing",
    "CodexProtocolError",
    "Disconnected",
    "LoginMissing",
    "Overloaded",
    "RequestFailed",
    "RequestTimeout",
    "UnknownMethod",
    "UnsupportedCodex",
    "is_auth_error",
    "turn_failure",
    "unguarded_failure",
    "unreached_failure",
]


class CodexError(TreadleError):
    """The Codex app-server failed."""


class CodexMissing(CodexError):
    """The binary cannot be run."""

    @classmethod
    def because(cls, binary: Path, error: OSError) -> Self:
        """Return the error for a `binary` that the system could not run."""
        why = error.strerror or type(error).__name__
        return cls(f"cannot run {str(binary)!r}: {why}; install Codex, or name another binary")


class LoginMissing(CodexError):
    """The user's Codex is not logged in, and its provider needs that."""

    def __init__(self, home: Path) -> None:
        super().__init__(
            f"Codex has no login in {str(home)!r}; run `treadle codex login`, "
            "or name a model of a provider that you have a key for"
        )


class UnsupportedCodex(CodexError):
    """Treadle does not support the version of the binary."""

    def __init__(self, message: str, version: str) -> None:
        super().__init__(message)
        self.version = version


class AppServerUnavailable(CodexError):
    """The app-server dies each time it is started."""


class Disconnected(CodexError):
    """The connection has ended; the server may or may not have done the open requests."""


class AppServerDied(Disconnected):
    """The process has ended. `status` is negative if a signal killed it."""

    def __init__(self, status: int | None, last_stderr: str = "") -> None:
        self.status, self.last_stderr = status, last_stderr
        how = "ended" if status is None else _ending(status)
        details = f"; it last said: {last_stderr}" if last_stderr else ""
        super().__init__(f"the Codex app-server {how}; the next turn starts another{details}")


def _ending(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"


class RequestTimeout(CodexError):
    """No result came in time."""

    def __init__(self, method: str, seconds: float) -> None:
        self.method, self.seconds = method, seconds
        super().__init__(
            f"the Codex app-server did not answer {method!r} within {seconds:g} s; "
            "try again, and if it does not answer again, start the turn again"
        )


class RequestFailed(CodexError):
    """The app-server answered a request with an error."""

    def __init__(self, method: str, code: int, reason: str) -> None:
        self.method, self.code, self.reason = method, code, reason
        super().__init__(f"the Codex app-server refused {method!r} ({code}): {reason}")


class UnknownMethod(RequestFailed):
    """This version of the app-server lacks the method."""


class Overloaded(RequestFailed):
    """The app-server was still overloaded after all retries."""


class CodexProtocolError(CodexError):
    """The app-server sent a message that Treadle cannot read; its version may be too new."""


_UNREACHED = "httpConnectionFailed"
_REFUSED_KEY = (401, 403)
_NO_QUOTA = "Quota exceeded"
_PASSED_ON = r"unexpected status (?P<status>\d+)[^:]*: (?P<words>.*?), url: "
"""A message of Codex with a status and the provider's words."""
_EXPIRED = "auth refresh request failed"
"""The error of Codex when tokens of Treadle's have expired: it first tries to refresh them."""


def is_auth_error(error: CodexTurnError | None) -> bool:
    """Say whether the provider did not accept the credential of the request."""
    if error is None:
        return False
    return error.http_status == _REFUSED_KEY[0] or error.message.startswith(_EXPIRED)


def turn_failure(error: CodexTurnError | None, provider: str) -> Failure:
    """Return why a turn on `provider` failed, for the plan and for the user.

    The message contains the message of Codex.
    """
    message = _failure_message(error, provider)
    if error is None:
        return Failure(reason="unknown", message=message)
    if error.is_overflow:
        return Failure(reason="context_overflow", message=message, code=error.kind)
    if (told := _told_by_provider(error)) is not None:
        return failure_of(told)
    if is_auth_error(error):
        return Failure(reason="auth", message=redact(message), code=error.kind)
    return named_failure(error.kind, message, error.http_status)


def _told_by_provider(error: CodexTurnError) -> ModelError | None:
    """Return the error that the provider's own words stand for, if Codex passes them on.

    Of a request that was refused (400) Codex passes on the body, of an account that cannot
    pay sometimes a sentence of its own.
    """
    if error.message.startswith(_NO_QUOTA):
        return error_for_status(429, {}, _error_body(error.message, "insufficient_quota"))
    if error.message.startswith("{") and error.http_status is None:
        return error_for_status(400, {}, error.message.encode())
    if (found := re.match(_PASSED_ON, error.message)) is None:
        return None
    told = error_for_status(int(found["status"]), {}, _error_body(found["words"]))
    return told if failure_of(told).reason == "billing" else None


def _error_body(message: str, code: str = "") -> bytes:
    return json_bytes({"error": {"message": message, "code": code}})


def _failure_message(error: CodexTurnError | None, provider: str) -> str:
    if error is None:
        return "Codex ended the turn as failed and did not say why; run `treadle doctor`"
    if error.is_overflow:
        return f"the conversation does not fit the model's window: {error.message}"
    if error.http_status in _REFUSED_KEY or is_auth_error(error):
        return f"the provider {provider!r} refused the key: {error.message}; check the key"
    if error.kind == _UNREACHED and error.http_status is None:
        return (
            f"the provider {provider!r} cannot be reached: {error.message}; "
            "check the network and the provider's address"
        )
    return error.message


def unreached_failure(base_url: str) -> Failure:
    """Return the failure of a turn whose provider on this machine is not there."""
    url = urlsplit(base_url)
    message = (
        f"{url.scheme}://{url.netloc.rpartition('@')[2]}: no server listens on {url.hostname!r}; "
        "start it, or check the port"
    )
    return named_failure(_UNREACHED, message)


def unguarded_failure(breach: str) -> Failure:
    """Return the failure of a turn in which Codex did what a hook could not decide about."""
    return Failure(
        reason="unknown",
        code="unguarded",
        message=f"{breach}; the turn was stopped. Run it with `--harness treadle`, "
        "or allow it with `unguarded = true` in the table `[codex]` of your settings",
    )
