"""What is said over the pipe.

Owns the requests, the replies and how failures travel. Invariant: a failure arrives as
the same kind of exception with the same words, so callers cannot tell where it happened.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from ...core.errors import SandboxUnavailable
from ..executor import Bounds, ProcessSpec
from ..patch.errors import InvalidPatch, PatchError, PatchFailed, PatchRefused

__all__ = [
    "Apply",
    "Close",
    "Failure",
    "Kill",
    "Operation",
    "Output",
    "Read",
    "Reply",
    "Request",
    "Start",
    "Type",
    "Wait",
    "Write",
    "decode_reply",
    "decode_request",
    "encode",
    "failure_of",
]


class Start(Struct, frozen=True, tag="start"):
    """Start a process; the answer is its number."""

    spec: ProcessSpec


class Output(Struct, frozen=True, tag="output"):
    """Some output of a process; the answer is empty at its end."""

    process: int


class Type(Struct, frozen=True, tag="type"):
    """Type into a process."""

    process: int
    data: bytes


class Wait(Struct, frozen=True, tag="wait"):
    """The exit code of a process."""

    process: int


class Kill(Struct, frozen=True, tag="kill"):
    """End a process and forget it; the answer is its exit code."""

    process: int


class Read(Struct, frozen=True, tag="read"):
    """A file's bytes."""

    path: Path
    bounds: Bounds
    limit: int | None = None


class Write(Struct, frozen=True, tag="write"):
    """Replace a file."""

    path: Path
    data: bytes
    bounds: Bounds


class Apply(Struct, frozen=True, tag="apply"):
    """Apply a patch."""

    text: str
    cwd: Path
    bounds: Bounds


class Close(Struct, frozen=True, tag="close"):
    """End everything."""


Operation: TypeAlias = Start | Output | Type | Wait | Kill | Read | Write | Apply | Close


class Request(Struct, frozen=True):
    """Something to do."""

    number: int
    operation: Operation


class Failure(Struct, frozen=True, kw_only=True):
    """An exception on its way."""

    kind: str
    text: str
    code: int | None = None
    path: str | None = None
    place: str | None = None

    def exception(self) -> Exception:
        """The exception as it was raised."""
        match self.kind:
            case "SandboxUnavailable":
                return SandboxUnavailable(self.text)
            case "PatchRefused":
                return PatchRefused(Path(self.path or ""), Path(self.place or ""))
            case "InvalidPatch":
                return InvalidPatch(self.text, self.code)
            case "PatchFailed":
                return PatchFailed(self.text, Path(self.path) if self.path else None)
            case "OSError":
                return OSError(self.code, self.text, self.path)
            case kind:
                return RuntimeError(f"{kind}: {self.text}")


class Reply(Struct, frozen=True):
    """What became of a request."""

    number: int
    value: Any = None
    """A number, bytes or text, as the operation has it."""
    failure: Failure | None = None


def failure_of(error: Exception) -> Failure:
    """How `error` travels."""
    match error:
        case PatchRefused():
            return Failure(
                kind="PatchRefused", text="", path=str(error.path), place=str(error.place)
            )
        case InvalidPatch():
            return Failure(kind="InvalidPatch", text=error.detail, code=error.line)
        case PatchError():
            path = getattr(error, "path", None)
            return Failure(kind="PatchFailed", text=str(error), path=path and str(path))
        case SandboxUnavailable():
            return Failure(kind="SandboxUnavailable", text=str(error))
        case OSError():
            return _system_failure(error)
        case _:
            return Failure(kind=type(error).__name__, text=str(error))


def _system_failure(error: OSError) -> Failure:
    """System errors keep their number; ours without one are refusals."""
    if error.errno is None:
        code = errno.EACCES if isinstance(error, PermissionError) else errno.EIO
        return Failure(kind="OSError", text=str(error), code=code)
    path = None if error.filename is None else str(error.filename)
    return Failure(kind="OSError", text=error.strerror or "", code=error.errno, path=path)


def _to_wire(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__!r} cannot travel")


def _from_wire(type_: type, value: Any) -> Any:
    if type_ is Path:
        return Path(value)
    raise NotImplementedError(f"{type_.__name__!r} cannot travel")


_requests = msgspec.msgpack.Decoder(Request, dec_hook=_from_wire)
_replies = msgspec.msgpack.Decoder(Reply, dec_hook=_from_wire)
_encoder = msgspec.msgpack.Encoder(enc_hook=_to_wire)


def encode(message: Request | Reply) -> bytes:
    """A message as bytes."""
    return _encoder.encode(message)


def decode_request(data: bytes) -> Request:
    """The request in `data`. Raises `msgspec.DecodeError`."""
    return _requests.decode(data)


def decode_reply(data: bytes) -> Reply:
    """The reply in `data`. Raises `msgspec.DecodeError`."""
    return _replies.decode(data)
