"""What goes wrong between Treadle and an app-server.

CodexError
├── CodexMissing           the binary cannot be run
├── UnsupportedCodex       it is of a version Treadle does not know; `.version`
├── AppServerUnavailable   it dies each time it is started
├── Disconnected           the connection ended with requests unanswered
│   └── AppServerDied      because the process did; `.status`, `.complaint`
├── RequestTimeout         no answer came in time; `.method`, `.seconds`
├── RequestFailed          the answer is an error; `.method`, `.code`
│   ├── UnknownMethod      this version lacks the method
│   └── Overloaded         the server had too much to do, again and again
└── ProtocolError          an answer in a shape Treadle cannot read

No text holds what was sent, and none holds a credential.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from ...core.errors import TreadleError

__all__ = [
    "AppServerDied",
    "AppServerUnavailable",
    "CodexError",
    "CodexMissing",
    "CodexProtocolError",
    "Disconnected",
    "Overloaded",
    "RequestFailed",
    "RequestTimeout",
    "UnknownMethod",
    "UnsupportedCodex",
]


class CodexError(TreadleError):
    """The Codex app-server did not do its part."""


class CodexMissing(CodexError):
    """The binary cannot be run."""

    @classmethod
    def because(cls, binary: Path, error: OSError) -> Self:
        """What the system said about `binary`."""
        why = error.strerror or type(error).__name__
        return cls(f"cannot run {str(binary)!r}: {why}; install Codex, or name another binary")


class UnsupportedCodex(CodexError):
    """The binary is of a version Treadle does not know."""

    def __init__(self, message: str, version: str) -> None:
        super().__init__(message)
        self.version = version


class AppServerUnavailable(CodexError):
    """The app-server dies each time it is started."""


class Disconnected(CodexError):
    """The connection has ended; requests without an answer may or may not have been done."""


class AppServerDied(Disconnected):
    """The process has ended. `status` is negative where a signal killed it."""

    def __init__(self, status: int | None, complaint: str = "") -> None:
        self.status, self.last_stderr = status, complaint
        how = "ended" if status is None else _ending(status)
        said = f"; it last said: {complaint}" if complaint else ""
        super().__init__(f"the Codex app-server {how}; the next turn starts another{said}")


def _ending(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"


class RequestTimeout(CodexError):
    """No answer came in time."""

    def __init__(self, method: str, seconds: float) -> None:
        self.method, self.seconds = method, seconds
        super().__init__(
            f"the Codex app-server did not answer {method!r} within {seconds:g} s; "
            "try again, and if it stays silent start the turn anew"
        )


class RequestFailed(CodexError):
    """The app-server answered with an error."""

    def __init__(self, method: str, code: int, reason: str) -> None:
        self.method, self.code, self.reason = method, code, reason
        super().__init__(f"the Codex app-server refused {method!r} ({code}): {reason}")


class UnknownMethod(RequestFailed):
    """This version of the app-server lacks the method."""


class Overloaded(RequestFailed):
    """The app-server had too much to do, however long we waited."""


class CodexProtocolError(CodexError):
    """The app-server sent what Treadle cannot read; its version may be too new."""
