"""Header fields: those we read, and those we are willing to send.

Invariant: no name or value leaves this module with a byte in it that could end a
line, and none that may be a secret appears in a `repr` or an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ...core.patterns import regex
from .errors import RequestRefused

__all__ = ["Headers", "encode_fields"]

_TOKEN = regex(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_UNSAFE = regex(r"[\x00-\x08\x0a-\x1f\x7f]")
_SECRET = regex(r"auth|cookie|key|token|secret|credential|signature", re.IGNORECASE)
_OURS = frozenset(
    (
        *("accept-encoding", "connection", "content-length", "expect", "host", "keep-alive"),
        *("proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding"),
        "upgrade",
    )
)


class Headers(Mapping[str, str]):
    """Received fields: names in any case, repeated ones joined with a comma."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._fields: dict[str, list[str]] = {}
        for name, value in fields:
            self._fields.setdefault(name.lower(), []).append(value)

    def __getitem__(self, name: str) -> str:
        return ", ".join(self._fields[name.lower()])

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._fields

    def __repr__(self) -> str:
        shown = {name: "…" if _SECRET.search(name) else self[name] for name in self}
        return f"Headers({shown!r})"

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of `name`, in the order they came."""
        return tuple(self._fields.get(name.lower(), ()))


def encode_fields(headers: Mapping[str, str], origin: str) -> bytes:
    """The caller's header lines, or `RequestRefused` that names the offending one."""
    return b"".join(_line(name, value, origin) for name, value in headers.items())


def _line(name: str, value: str, origin: str) -> bytes:
    if not _TOKEN.fullmatch(name):
        raise RequestRefused(origin, f"{name!r} is no header name; correct it")
    if name.lower() in _OURS:
        raise RequestRefused(origin, f"header {name!r} is the transport's own; leave it out")
    if _UNSAFE.search(value):
        raise RequestRefused(
            origin, f"header {name!r} has a line break or control character in it; remove it"
        )
    try:
        return f"{name}: {value}\r\n".encode("latin-1")
    except UnicodeEncodeError:
        # Its text would show the value.
        raise RequestRefused(
            origin, f"header {name!r} has a character outside Latin-1; encode it"
        ) from None
