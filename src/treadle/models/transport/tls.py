"""TLS: which certificate authorities count, and who we are.

Owns the TLS context, and the sessions that make a second handshake with a host short.
Invariant: certificate and host name are always checked.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...core.errors import ConfigError

__all__ = ["TlsContext", "TlsTrust"]


class TlsTrust(Struct, frozen=True, kw_only=True):
    """Certificate authorities: the system's, unless `system` is off, and these.

    Servers that ask who we are get the `certificate`; its key is in the same file, or in `key`.
    """

    files: tuple[Path, ...] = ()
    directories: tuple[Path, ...] = ()
    system: bool = True
    certificate: Path | None = None
    key: Path | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], *extra: Path) -> TlsTrust:
        """Read `SSL_CERT_FILE` and `SSL_CERT_DIR`, which replace the system's, and add `extra`."""
        file = environment.get("SSL_CERT_FILE", "")
        directories = environment.get("SSL_CERT_DIR", "")
        return cls(
            files=(*([Path(file)] if file else []), *extra),
            directories=tuple(Path(part) for part in directories.split(":") if part),
            system=not (file or directories),
        )

    def make_context(self) -> TlsContext:
        """Return a client's TLS context. Reads files: call it off the loop."""
        context = TlsContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self.system:
            context.load_default_certs()
        for file in self.files:
            _load(context, file)
        for directory in self.directories:
            context.load_verify_locations(capath=directory)
        if self.certificate is not None:
            _load_certificate(context, self.certificate, self.key)
        return context


class TlsContext(ssl.SSLContext):
    """Offers each host the session it gave us last.

    asyncio has no argument for sessions, but wraps every connection through here.
    """

    _sessions: dict[str, ssl.SSLSession]

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Wrap as the standard library does, with the host's last session."""
        sessions = self._session_cache()
        if session is None and isinstance(server_hostname, str):
            session = sessions.get(server_hostname)
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def remember(self, tls: ssl.SSLObject) -> None:
        """Keep the session for the next connection to the same host."""
        session: Any = tls.session
        if session is not None and session.has_ticket and tls.server_hostname:
            self._session_cache()[tls.server_hostname] = session

    def _session_cache(self) -> dict[str, ssl.SSLSession]:
        if not hasattr(self, "_sessions"):
            self._sessions = {}
        return self._sessions


def _load(context: ssl.SSLContext, file: Path) -> None:
    try:
        context.load_verify_locations(cafile=file)
    except OSError as error:
        reason = error.strerror or "not a PEM file"
        raise ConfigError(
            f"cannot read certificate authorities from {str(file)!r} ({reason}); "
            "name a PEM file, for example in SSL_CERT_FILE"
        ) from error


def _load_certificate(context: ssl.SSLContext, file: Path, key: Path | None) -> None:
    try:
        # A key with a passphrase is refused instead of asking for it on the terminal.
        context.load_cert_chain(file, key, password=lambda: "")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or "not PEM"
        shown = f"{str(file)!r}" + (f" and {str(key)!r}" if key is not None else "")
        raise ConfigError(
            f"cannot use the client certificate in {shown} ({reason}); name PEM files with a "
            "certificate and its key, without a passphrase"
        ) from error
